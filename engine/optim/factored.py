"""Optimizers for matrices: Adafactor, with a factored second moment, and Muon, with orthogonalized steps."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..base import dtypes
from ..core import devices
from ..core.tensor import Tensor
from .optimizer import Optimizer, count, number, one_number


def _refuse(name: str, value: Any, ok: bool, rule: str) -> None:
    if not ok:
        raise ValueError(f"{name} should be {rule} but is: {value}")


class Adafactor(Optimizer):
    """Adafactor: p = p - max(eps2, rms(p)) rho_t u / max(1, rms(u) / d), with u = g / sqrt(v) and rho_t = min(lr, 1 / sqrt(t)).

    v is the running mean of g²; for matrices only the means of its rows and columns are stored. eps[0]=None uses the dtype's machine
    epsilon. Source: Shazeer and Stern 2018.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0,
        weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _refuse("Learning rate", lr, number(lr) >= 0, ">= 0")
        _refuse("beta2_decay", beta2_decay, beta2_decay <= 0, "<= 0")
        _refuse("epsilon1", eps[0], eps[0] is None or eps[0] >= 0, ">= 0")
        _refuse("epsilon2", eps[1], eps[1] >= 0, ">= 0")
        _refuse("Clipping threshold d", d, d >= 1, ">= 1")
        _refuse("weight_decay", weight_decay, weight_decay >= 0, ">= 0")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        })  # fmt: skip

    def _update_complex(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        raise RuntimeError("Adafactor does not support complex parameters")

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            state["step"] = one_number(0)
            if g.ndim > 1:
                state["row_var"] = Tensor._wrap(xp.zeros_like(g[..., :1]))
                state["col_var"] = Tensor._wrap(xp.zeros_like(g[..., :1, :]))
            else:
                state["variance"] = Tensor._wrap(xp.zeros_like(g))
        t, lr, (eps1, eps2) = count(state), number(group["lr"]), group["eps"]
        eps1 = float(dtypes.finfo(dtypes.as_dtype(p.dtype)).eps) if eps1 is None else eps1
        new = t ** group["beta2_decay"]
        alpha = max(eps2, _rms(xp, p)) * min(lr, 1 / math.sqrt(t))
        if group["weight_decay"]:
            p *= 1 - lr * group["weight_decay"]
        squares = g * g
        if g.ndim > 1:
            rows, columns = state["row_var"].array, state["col_var"].array
            rows += new * (squares.mean(-1, keepdims=True) - rows)
            columns += new * (squares.mean(-2, keepdims=True) - columns)
            v = rows * columns / xp.maximum(rows.mean(-2, keepdims=True), eps1)
        else:
            v = state["variance"].array
            v += new * (squares - v)
        u = g / xp.sqrt(xp.maximum(v, eps1 * eps1))
        p -= (u * (alpha / max(1.0, _rms(xp, u) / group["d"]))).astype(p.dtype)


def _rms(xp: Any, x: Any) -> float:
    """Return the root mean square."""
    return float(xp.sqrt(xp.mean(xp.square(x.astype(numpy.float64))))) if x.size else 0.0


class Muon(Optimizer):
    """Muon: b = momentum b + (1 - momentum) g and p = (1 - lr weight_decay) p - lr' O(b), for 2D parameters only.

    O approximates the nearest (semi-)orthogonal matrix by `ns_steps` Newton-Schulz steps in bfloat16. `adjust_lr_fn` derives lr' from lr:
    "original" (default), sqrt(max(1, rows / columns)) lr, or "match_rms_adamw", 0.2 sqrt(max(rows, columns)) lr. Source: Jordan 2024,
    https://kellerjordan.github.io/posts/muon/.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        _refuse("Learning rate", lr, number(lr) >= 0, ">= 0")
        _refuse("momentum", momentum, momentum >= 0, ">= 0")
        _refuse("weight decay", weight_decay, weight_decay >= 0, ">= 0")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "ns_coefficients": ns_coefficients,
            "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}")

    def _update_complex(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        raise RuntimeError("Muon does not support complex parameters")

    def _update(self, xp: Any, p: Any, g: Any, state: dict, group: dict) -> None:
        if not state:
            state["momentum_buffer"] = Tensor._wrap(xp.zeros_like(g))
        momentum, lr, buffer = group["momentum"], number(group["lr"]), state["momentum_buffer"].array
        buffer += (1 - momentum) * (g - buffer)
        step = g + momentum * (buffer - g) if group["nesterov"] else buffer
        o = _orthogonal(xp, step, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        else:
            factor = math.sqrt(max(1, rows / columns))
        p *= 1 - lr * group["weight_decay"]
        p -= (o * (lr * factor)).astype(p.dtype)


def _orthogonal(xp: Any, matrix: Any, coefficients: tuple, steps: int, eps: float) -> Any:
    """Bring the singular values near 1 by iterating x = a x + (b x xᵀ + c (x xᵀ)²) x, with products rounded to bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    low = lambda x: devices.namespace(x).astype(devices.namespace(x).astype(x, dtypes.bfloat16.numpy), dtypes.F32)  # noqa: E731
    x = low(matrix.T if matrix.shape[0] > matrix.shape[1] else matrix)
    size = low(xp.sqrt(xp.sum(x * x)))
    x = low(x / max(float(size), eps))
    for _ in range(steps):
        gram = low(x @ x.T)
        inner = low(b * gram + c * (gram @ gram))
        x = low(a * x + inner @ x)
    return x.T if matrix.shape[0] > matrix.shape[1] else x
