"""Optimizers with per-element step sizes from past gradients: Adagrad, RMSprop and Adadelta."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .optimizer import Optimizer, check, count, decayed, factor, library, mix, mix_square, one_number, options, scalar, start


class Adagrad(Optimizer):
    """Adagrad: s = s + g² and p = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps) (Duchi et al. 2011)."""

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0, initial_accumulator_value: float = 0,
        eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ):  # fmt: skip
        super().__init__(params, options(
            lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value,
            foreach=foreach, maximize=maximize, differentiable=differentiable, fused=fused,
        ))  # fmt: skip

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options; their sums are initialized before the first step, as in PyTorch."""
        super().add_param_group(param_group)
        start = self.defaults["initial_accumulator_value"]  # PyTorch ignores a group's own value
        for p in self.param_groups[-1]["params"]:
            total = library(p.array).full_like(p.array, complex(start, start) if p.is_complex() else start)
            self.state[p] = {"step": one_number(0), "sum": Tensor._wrap(total)}

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        t = count(state)
        a, b = self._spare(xp, p, 2)
        g = decayed(xp, p, g, group["weight_decay"], b)
        total = state["sum"].array
        xp.multiply(g, g, out=a)
        total += a
        xp.sqrt(total, out=a)
        a += group["eps"]
        xp.divide(g, a, out=a)
        a *= factor(scalar(group["lr"]) / (1 + (t - 1) * group["lr_decay"]), a)
        p -= a

    def _update_sparse(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        lr = factor(scalar(group["lr"]) / (1 + (count(state) - 1) * group["lr_decay"]), p)
        at, total = tuple(g.indices), state["sum"].array
        total[at] += g.values * g.values
        p[at] -= lr * g.values / (xp.sqrt(total[at]) + group["eps"])


class RMSprop(Optimizer):
    """RMSprop: v = alpha v + (1 - alpha) g² and p = p - lr g / (sqrt(v) + eps) (Hinton 2012).

    `centered` subtracts the squared running mean of g from v. With `momentum`, b = momentum b + g / (sqrt(v) + eps) and p = p - lr b.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0,
        centered: bool = False, capturable: bool = False, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        check("alpha value", alpha, alpha >= 0.0)
        super().__init__(params, options(
            lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay, capturable=capturable,
            foreach=foreach, maximize=maximize, differentiable=differentiable,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            names = {"square_avg": True, "momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
            start(state, group, xp, p, *[name for name, wanted in names.items() if wanted])
        count(state)
        lr, (a, b) = factor(scalar(group["lr"]), p), self._spare(xp, p, 2)
        g = decayed(xp, p, g, group["weight_decay"], b)
        v = state["square_avg"].array
        mix_square(xp, v, g, group["alpha"], a)
        if group["centered"]:
            mean = state["grad_avg"].array
            mix(xp, mean, g, group["alpha"], a)
            xp.multiply(mean, mean, out=a)
            xp.subtract(v, a, out=a)
            xp.sqrt(a, out=a)
        else:
            xp.sqrt(v, out=a)
        a += group["eps"]
        xp.divide(g, a, out=a)
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].array
            buffer *= group["momentum"]
            buffer += a
            xp.multiply(buffer, lr, out=a)
        else:
            a *= lr
        p -= a


class Adadelta(Optimizer):
    """Adadelta: d = sqrt(u + eps) / sqrt(v + eps) g and p = p - lr d, with u and v the running means of d² and g² (Zeiler 2012)."""

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0, foreach: bool | None = None, *,
        capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ):  # fmt: skip
        check("rho value", rho, 0.0 <= rho <= 1.0)
        super().__init__(params, options(
            lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, capturable=capturable, foreach=foreach,
            differentiable=differentiable,
        ))  # fmt: skip

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            start(state, group, xp, p, "square_avg", "acc_delta")
        count(state)
        a, b, c = self._spare(xp, p, 3)
        g = decayed(xp, p, g, group["weight_decay"], b)
        v, u = state["square_avg"].array, state["acc_delta"].array
        mix_square(xp, v, g, group["rho"], a)
        xp.add(v, group["eps"], out=a)
        xp.sqrt(a, out=a)
        xp.add(u, group["eps"], out=c)
        xp.sqrt(c, out=c)
        c /= a
        c *= g
        mix_square(xp, u, c, group["rho"], a)
        c *= factor(scalar(group["lr"]), c)
        p -= c
