"""Adam and its variants AdamW, NAdam, RAdam and Adamax; m and v are running means of g and g²."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy

from ..backends import fused
from ..backends.workers import share
from ..core.tensor import Tensor
from .optimizer import (
    Optimizer,
    count,
    counter,
    decayed,
    factor,
    held,
    held_like,
    library,
    mix,
    mix_square,
    on_gpu,
    options,
    plain,
    scalar,
    start,
    there_number,
)


def _decayed(xp: Any, p: Any, g: Any, lr: float, group: dict, out: Any) -> Any:
    """Add weight decay to the gradient; if it is decoupled, scale p instead and return the gradient unchanged."""
    if not group["decoupled_weight_decay"]:
        return decayed(xp, p, g, group["weight_decay"], out)
    if group["weight_decay"]:
        p *= factor(1 - lr * group["weight_decay"], p)
    return g


class Adam(Optimizer):
    """Adam: p = p - lr m̂ / (sqrt(v̂) + eps), with m̂ = m / (1 - beta1^t) and v̂ = v / (1 - beta2^t) (Kingma & Ba 2014).

    m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g². `amsgrad` uses the maximum of all v (Reddi et al. 2018). `weight_decay` p
    is added to the gradient, or subtracted from p directly with `decoupled_weight_decay`.
    """

    _instead = ", please consider SparseAdam instead"

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None, decoupled_weight_decay: bool = False,
    ):  # fmt: skip
        super().__init__(params, options(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize, foreach=foreach,
            capturable=capturable, differentiable=differentiable, fused=fused, decoupled_weight_decay=decoupled_weight_decay,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            start(state, group, xp, p, "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else []))
        t, lr = count(state), scalar(group["lr"])
        beta1, beta2 = map(scalar, group["betas"])
        m, v = state["exp_avg"].array, state["exp_avg_sq"].array
        if not group["amsgrad"] and (run := fused.kernel("adam", p, g, m, v)) is not None:
            shrink, decay = (1 - lr * group["weight_decay"], 0) if group["decoupled_weight_decay"] else (1, group["weight_decay"])
            numbers = (shrink, decay, beta1, beta2, (1 - beta2**t) ** 0.5, group["eps"], lr / (1 - beta1**t))
            share(run, (g.reshape(-1),), *map(float, numbers), last=tuple(a.reshape(-1) for a in (p, m, v)))
            return
        a, b = self._spare(xp, p, 2)
        g = _decayed(xp, p, g, lr, group, b)
        mix(xp, m, g, beta1, a)
        mix_square(xp, v, g, beta2, a)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"].array
            v = xp.maximum(largest, v, out=largest)
        xp.sqrt(v, out=a)
        a /= factor((1 - beta2**t) ** 0.5, a)
        a += group["eps"]
        xp.divide(m, a, out=a)
        a *= factor(lr / (1 - beta1**t), a)
        p -= a

    def _update_list(self, gpu: Any, given: list, group: dict) -> None:
        names = ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else []))
        lists = defaultdict(list)
        for p, g, state in given:
            if not state:
                start(state, group, library(p), p, *names)
            step = held(state, "step")
            if on_gpu(step) and step.dtype != numpy.float32:
                state["step"] = Tensor._wrap(step.astype(numpy.float32))
            elif not on_gpu(step) and self._found is not None:  # only the GPU knows whether this step is skipped
                state["step"] = there_number(float(step), p)
            t = None if on_gpu(held(state, "step")) else count(state)
            lists[p.dtype, t].append((state["step"].array, (p, g, *[held_like(gpu, p, state, name) for name in names])))
        options = {"lr": scalar(group["lr"]), "betas": tuple(map(scalar, group["betas"])), "decoupled": group["decoupled_weight_decay"]}
        options |= {name: group[name] for name in ("eps", "weight_decay", "maximize")}
        for (_, t), rows in lists.items():
            steps, arrays = zip(*rows, strict=True)
            counted = {"steps": steps} if t is None else {"step": t}
            gpu.adam(*zip(*arrays, strict=True), **counted, **options, found=self._found)


class AdamW(Adam):
    """Adam with decoupled weight decay: p = (1 - lr weight_decay) p before each step (Loshchilov & Hutter 2017)."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
        differentiable: bool = False, fused: bool | None = None,
    ):  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip


class NAdam(Optimizer):
    """Adam with Nesterov momentum: mu_t = beta1 (1 - 0.5 · 0.96^(t momentum_decay)) weights m and g (Dozat 2016)."""

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        super().__init__(params, options(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach, capturable=capturable,
            differentiable=differentiable,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            state["step"], state["mu_product"] = None, counter(1, group, p)  # in PyTorch's order
            start(state, group, xp, p, "exp_avg", "exp_avg_sq")
        t, lr, (beta1, beta2) = count(state), scalar(group["lr"]), map(scalar, group["betas"])
        a, b = self._spare(xp, p, 2)
        g = _decayed(xp, p, g, lr, group, b)
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (t * group["momentum_decay"])))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((t + 1) * group["momentum_decay"])))
        product = held(state, "mu_product")
        product *= factor(mu, product)
        m, v = state["exp_avg"].array, state["exp_avg_sq"].array
        mix(xp, m, g, beta1, a)
        mix_square(xp, v, g, beta2, a)
        xp.divide(v, factor(1 - beta2**t, v), out=a)
        xp.sqrt(a, out=a)
        a += group["eps"]
        so_far = plain(product)
        p -= g / a * factor(lr * (1.0 - mu) / (1.0 - so_far), p)
        p -= m / a * factor(lr * mu_next / (1.0 - so_far * mu_next), p)


class RAdam(Optimizer):
    """Rectified Adam: scale the step by a rectification term for the variance of v; plain momentum while rho_t <= 5 (Liu et al. 2019)."""

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ):  # fmt: skip
        super().__init__(params, options(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach, capturable=capturable,
            decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            start(state, group, xp, p, "exp_avg", "exp_avg_sq")
        t, lr, (beta1, beta2) = count(state), scalar(group["lr"]), map(scalar, group["betas"])
        a, b = self._spare(xp, p, 2)
        g = _decayed(xp, p, g, lr, group, b)
        m, v = state["exp_avg"].array, state["exp_avg_sq"].array
        mix(xp, m, g, beta1, a)
        mix_square(xp, v, g, beta2, a)
        left2 = 1 - beta2**t
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * t * beta2**t / left2
        step, long = m * factor(lr / (1 - beta1**t), p), rho > 5.0 if on_gpu(rho) else bool(rho > 5.0)
        if long is not False:
            rectified = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            xp.sqrt(v, out=a)
            a += group["eps"]
            slow = step * factor(rectified * left2**0.5, p)
            slow /= a
            step = slow if long is True else xp.where(long, slow, step)
        p -= step


class Adamax(Optimizer):
    """Adam with the infinity norm: u = max(beta2 u, |g| + eps) and p = p - lr m / ((1 - beta1^t) u) (Kingma & Ba 2014)."""

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ):  # fmt: skip
        super().__init__(params, options(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize, differentiable=differentiable,
            capturable=capturable,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            start(state, group, xp, p, "exp_avg", "exp_inf")
        t, lr, (beta1, beta2) = count(state), scalar(group["lr"]), map(scalar, group["betas"])
        a, b = self._spare(xp, p, 2)
        g = decayed(xp, p, g, group["weight_decay"], b)
        m, u = state["exp_avg"].array, state["exp_inf"].array
        mix(xp, m, g, beta1, a)
        xp.abs(g, out=a)
        a += group["eps"]
        u *= beta2
        xp.maximum(u, a, out=u)
        xp.divide(m, u, out=a)
        a *= factor(lr / (1 - beta1**t), a)
        p -= a
