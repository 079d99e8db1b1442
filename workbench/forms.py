"""Formulas of ops whose own code hides them in a kernel: softmax, cross entropy, norms, convolutions and their rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from .notation import MATH, dims
from .protocol import Formula
from .symbols import ATOM, PREFIX, SUM, Symbol, binary, call, symbol


def _index(x: Any, i: Any) -> Symbol:
    return Symbol(["msub", x.within(ATOM), symbol(i).tree], ATOM, None)


def _mean(x: Any, dim: Any = None, **more: Any) -> Symbol:
    over = dims(dim)
    sign: Formula = ["mo", "∑"]
    count = x.size if dim is None and x._shape is not None else "n"
    if dim is not None and x._shape is not None and x.shape:
        count = int(numpy.prod([x.shape[d] for d in ((dim,) if isinstance(dim, int) else dim)]))
    one: Formula = ["mfrac", ["mn", "1"], ["mi", count] if isinstance(count, str) else ["mn", str(count)]]
    return Symbol(["mrow", one, sign if over is None else ["munder", sign, over], x.within(PREFIX)], SUM + 1, None)


def _normalized(x: Any, weight: Any = None, bias: Any = None) -> Symbol:
    mean, variance = Symbol(["mi", "μ"]), Symbol(["msup", ["mi", "σ"], ["mn", "2"]])
    made = (x - mean) / MATH.sqrt(variance + Symbol(["mi", "ε"]))
    made = made if weight is None else Symbol(made.tree, ATOM, x._shape) * weight
    return made if bias is None else made + bias


def _softmax(x: Any, dim: Any = None, **more: Any) -> Symbol:
    over = dims(dim)
    power = MATH.exp(x)
    sign: Formula = ["mo", "∑"]
    return Symbol(["mfrac", power.tree, ["mrow", sign if over is None else ["munder", sign, over], power.tree]], ATOM, x._shape)


def _log_softmax(x: Any, dim: Any = None, **more: Any) -> Symbol:
    return x - Symbol(["mrow", ["mi", "ln"], ["mo", "∑"], MATH.exp(x).tree], PREFIX, ())


def _convolved(x: Any, weight: Any, bias: Any = None, **more: Any) -> Symbol:
    product = binary("∗", weight, x, SUM + 1, PREFIX)
    return product if bias is None else product + bias


def _loss_mean(inside: Symbol, reduction: str) -> Symbol:
    return inside if reduction == "none" else MATH.sum(inside) if reduction == "sum" else _mean(inside)


_one = Symbol(["mn", "1"])
FORMS: dict[str, Callable[..., Symbol]] = {
    "sigmoid": lambda x, **k: _one / (1 + MATH.exp(-x)),
    "relu": lambda x, **k: MATH.maximum(0, x),
    "silu": lambda x, **k: x / (1 + MATH.exp(-x)),
    "softplus": lambda x, **k: call("ln", 1 + MATH.exp(x)),
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": lambda x, **k: Symbol(["mrow", ["mi", "ln"], ["mo", "∑"], MATH.exp(x).tree], PREFIX, None),
    "mean": _mean,
    "linear": lambda x, w, b=None, **k: MATH.linear(x, w, b),
    "mse_loss": lambda x, t, reduction="mean", **k: _loss_mean((x - t) ** 2, reduction),
    "l1_loss": lambda x, t, reduction="mean", **k: _loss_mean(MATH.abs(x - t), reduction),
    "layer_norm": lambda x, weight=None, bias=None, **k: _normalized(x, weight, bias),
    "group_norm": lambda x, weight=None, bias=None, **k: _normalized(x, weight, bias),
    "batch_norm": lambda x, *more, **k: _normalized(x, *[m for m in more if m is not None][-2:]),
    "conv1d": _convolved, "conv2d": _convolved, "conv3d": _convolved,
    "embedding": lambda i, w, **k: _index(w, i),
    "outer": lambda x, y, **k: binary("⊗", x, y, SUM + 1, PREFIX),
}  # fmt: skip


def _each(sign: str, x: Symbol, dim: Any) -> Symbol:
    over = dims(dim)
    head: Formula = ["mo", sign]
    return Symbol(["mrow", head if over is None else ["munder", head, over], x.within(PREFIX)], PREFIX, None)


def _picked(x: Symbol, t: Symbol) -> Symbol:
    return Symbol(["msub", x.within(ATOM), t.tree], ATOM, None)


def _cross_entropy(x: Symbol, t: Symbol, *more: Any, reduction: str = "mean", **rest: Any) -> Symbol:
    inside = -Symbol(["mrow", ["mi", "ln"], ["mspace"], _picked(call("softmax", x), t).tree], PREFIX, None)
    return inside if reduction == "none" else _each("∑", inside, None) if reduction == "sum" else call("mean", inside)


def _cross_entropy_back(g: Symbol, z: Symbol, x: Symbol, t: Symbol, *more: Any, reduction: str = "mean", **rest: Any) -> Symbol:
    """Source: the derivative of ln softmax: softmax(x) minus one where the class is t."""
    inside = call("softmax", x) - Symbol(["msub", ["mi", "1"], t.tree], ATOM, None)
    n = x.size // max(x.shape[1], 1) if x.ndim > 1 else 1
    scaled = g / n if reduction == "mean" and n > 1 else g
    return Symbol(["mrow", scaled.within(PREFIX), ["mo", "·"], inside.within(ATOM)], SUM + 1, x._shape)


def _at(g: Symbol, where: str) -> Symbol:
    return Symbol(["mrow", g.tree, ["mtext", where]], ATOM, None)


BACKWARD: dict[tuple[str, str], Callable[..., Symbol]] = {
    ("relu", "input"): lambda g, z, x, **k: MATH.where(x > 0, g, 0),
    ("sigmoid", "input"): lambda g, z, x, **k: g * z * (1 - z),
    ("softmax", "input"): lambda g, z, x, dim=None, **k: z * (g - _each("∑", g * z, dim)),
    ("log_softmax", "input"): lambda g, z, x, dim=None, **k: g - MATH.exp(z) * _each("∑", g, dim),
    ("logsumexp", "input"): lambda g, z, x, **k: g * MATH.exp(x - z),
    ("cross_entropy", "input"): _cross_entropy_back,
    ("embedding", "weight"): lambda g, z, i, w, **k: _at(g, " added to the rows i"),
    ("getitem", "input"): lambda g, z, x, index=None, **k: _at(g, " at the same places, 0 elsewhere"),
    ("max_pool1d", "input"): lambda g, z, x, *m, **k: _at(g, " where the maximum of its window is, 0 elsewhere"),
    ("max_pool2d", "input"): lambda g, z, x, *m, **k: _at(g, " where the maximum of its window is, 0 elsewhere"),
    ("max_pool3d", "input"): lambda g, z, x, *m, **k: _at(g, " where the maximum of its window is, 0 elsewhere"),
}
for _name in ("conv1d", "conv2d", "conv3d"):
    BACKWARD[_name, "input"] = lambda g, z, x, w, *b, **k: binary("∗", MATH.matrix_transpose(w), g, SUM + 1, PREFIX)
    BACKWARD[_name, "weight"] = lambda g, z, x, w, *b, **k: binary("⋆", x, g, SUM + 1, PREFIX)
    BACKWARD[_name, "bias"] = lambda g, z, *more, **k: _each("∑", g, None)
FORMS["cross_entropy"] = _cross_entropy
FORMS["nll_loss"] = lambda x, t, *more, **k: -call("mean", _picked(x, t))
