"""SGD with momentum and Nesterov momentum; ASGD, which averages it; and Rprop, which only uses gradient signs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..backends import fused
from ..backends.workers import share
from ..core.tensor import Tensor
from .optimizer import Optimizer, count, counter, decayed, factor, held, held_like, library, on_gpu, options, plain, scalar, start


class SGD(Optimizer):
    """Stochastic gradient descent: b = momentum b + (1 - dampening) g and p = p - lr b, with b = g at the first step.

    `nesterov` steps along g + momentum b instead (Sutskever et al. 2013); `weight_decay` p is added to g.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ):  # fmt: skip
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, options(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov, maximize=maximize,
            foreach=foreach, differentiable=differentiable, fused=fused,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        momentum, buffer = group["momentum"], state.get("momentum_buffer")
        if momentum and buffer is not None and (run := fused.kernel("sgd", g, p, buffer.array)) is not None:
            numbers = (group["weight_decay"], momentum, 1 - group["dampening"], scalar(group["lr"]), group["nesterov"])
            share(run, (g.reshape(-1),), *map(float, numbers), last=(p.reshape(-1), buffer.array.reshape(-1)))
            return
        (step,) = self._spare(xp, p, 1)
        g = decayed(xp, p, g, group["weight_decay"], step)
        if momentum:
            if buffer is None:
                state["momentum_buffer"] = buffer = Tensor._wrap(g.copy())
            elif group["dampening"]:
                buffer.array *= momentum
                buffer.array += g * (1 - group["dampening"])
            else:
                buffer.array *= momentum
                buffer.array += g
            g = g + momentum * buffer.array if group["nesterov"] else buffer.array
        xp.multiply(g, factor(scalar(group["lr"]), p), out=step)
        p -= step

    def _update_list(self, gpu: Any, given: list, group: dict) -> None:
        lists = defaultdict(list)
        for p, g, state in given:
            first = group["momentum"] != 0 and state.get("momentum_buffer") is None
            if first:  # zeros, in case the step is skipped
                first, xp = self._found is None, library(p)
                state["momentum_buffer"] = Tensor._wrap(xp.empty_like(p) if first else xp.zeros_like(p))
            lists[p.dtype, first].append((p, g, held_like(gpu, p, state, "momentum_buffer") if group["momentum"] else None))
        options = {name: group[name] for name in ("momentum", "dampening", "weight_decay", "nesterov", "maximize")}
        for (_, first), rows in lists.items():
            gpu.sgd(*zip(*rows, strict=True), lr=scalar(group["lr"]), first=first, **options, found=self._found)

    def _can_skip(self, found: list[Tensor]) -> bool:
        # with dampening, a buffer of zeros differs from one that is still to be filled
        return super()._can_skip(found) and not any(
            group["dampening"] and not self.state.get(p) for group in self.param_groups for p in group["params"]
        )

    def _update_sparse(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError("SGD: weight_decay would make a sparse gradient dense; add(sparse, dense) is not supported")
        if group["momentum"]:
            self._update(xp, p, g + xp.zeros_like(p), state, group)
        else:
            p[tuple(g.indices)] -= factor(scalar(group["lr"]), p) * g.values


class ASGD(Optimizer):
    """Averaged SGD: the running average of p is `state["ax"]` (Polyak & Juditsky 1992).

    The step size is eta_t = lr / (1 + lambd lr t)^alpha, and the weight of the average mu_t = 1 / max(1, t - t0).
    """

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ):  # fmt: skip
        super().__init__(params, options(
            lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
            differentiable=differentiable, capturable=capturable,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        lr, lambd = scalar(group["lr"]), group["lambd"]
        if not state:
            state["step"] = None  # these are in PyTorch's order
            for name, value in (("eta", lr), ("mu", 1)):
                state[name] = counter(0, group, p)
                state[name].array[...] = value  # may be a tensor
            start(state, group, xp, p, "ax")
        t = count(state)
        (spare,) = self._spare(xp, p, 1)
        g = decayed(xp, p, g, group["weight_decay"], spare)
        eta, mu, ax = plain(held(state, "eta")), plain(held(state, "mu")), state["ax"].array
        step = g * factor(eta, p)
        p *= factor(1 - lambd * eta, p)
        p -= step
        if not on_gpu(mu) and mu == 1:
            ax[...] = p
        else:
            xp.subtract(p, ax, out=spare)
            spare *= factor(mu, p)
            ax += spare
        state["eta"].array[...] = lr / (1 + lambd * lr * t) ** group["alpha"]
        state["mu"].array[...] = 1 / (xp.maximum(1.0, t - group["t0"]) if on_gpu(t) else max(1.0, t - group["t0"]))


class Rprop(Optimizer):
    """Resilient backpropagation: per-element step sizes, updated by the sign of the gradient (Riedmiller & Braun 1993).

    A step size grows by etas[1] while the sign is unchanged, shrinks by etas[0] when it flips, and stays within `step_sizes`.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2), step_sizes: tuple[float, float] = (1e-6, 50), *,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, options(
            lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize, differentiable=differentiable,
            capturable=capturable,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            start(state, group, xp, p, "prev")
            state["step_size"] = Tensor._wrap(xp.zeros_like(p))
            state["step_size"].array[...] = scalar(group["lr"])
        count(state)
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        previous, size = state["prev"].array, state["step_size"].array
        turn = g * previous
        size *= xp.where(turn > 0, grow, xp.where(turn < 0, shrink, 1)).astype(size.dtype)
        size.clip(least, most, out=size)
        g = xp.where(turn < 0, g.dtype.type(0), g)
        p -= xp.where(g == g, xp.sign(g), 0) * size  # no step where the gradient is nan
        previous[...] = g
