"""Hand-written formulas for ops that are implemented as kernels: softmax, cross entropy, norms, convolutions and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..protocol import Formula
from .notation import MATH, dims
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
    """The derivative of -ln softmax(x)_t: softmax(x) minus the one-hot vector of class t."""
    inside = call("softmax", x) - Symbol(["msub", ["mi", "1"], t.tree], ATOM, None)
    n = x.size // max(x.shape[1], 1) if x.ndim > 1 else 1
    scaled = g / n if reduction == "mean" and n > 1 else g
    return Symbol(["mrow", scaled.within(PREFIX), ["mo", "·"], inside.within(ATOM)], SUM + 1, x._shape)


def _at(g: Symbol, where: str) -> Symbol:
    """The gradient followed by words, separated by a no-break space, which MathML does not collapse."""
    return Symbol(["mrow", g.tree, ["mtext", "\u00a0" + where.strip()]], ATOM, None)


BACKWARD: dict[tuple[str, str], Callable[..., Symbol]] = {
    ("relu", "input"): lambda g, z, x, **k: MATH.where(x > 0, g, 0),
    ("sigmoid", "input"): lambda g, z, x, **k: g * z * (1 - z),
    ("softmax", "input"): lambda g, z, x, dim=None, **k: z * (g - _each("∑", g * z, dim)),
    ("log_softmax", "input"): lambda g, z, x, dim=None, **k: g - MATH.exp(z) * _each("∑", g, dim),
    ("logsumexp", "input"): lambda g, z, x, **k: g * MATH.exp(x - z),
    ("cross_entropy", "input"): _cross_entropy_back,
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


# -- rules whose own code is a kernel, or is less clear than the usual formula -------------------------------------------------------


def _hat(x: Symbol) -> Symbol:
    """x̂, the normalized input."""
    return Symbol(["mover", x.within(ATOM), ["mo", "^"]], ATOM, x._shape)


_SPREAD = Symbol(["msqrt", ["mrow", ["msup", ["mi", "σ"], ["mn", "2"]], ["mo", "+"], ["mi", "ε"]]], ATOM, ())


def _normalized_back(g: Symbol, x: Symbol, weight: Symbol | None) -> Symbol:
    """The gradient minus its mean and its projection onto x̂, divided by the standard deviation (Ioffe and Szegedy, 2015)."""
    g = g if weight is None else g * weight
    inside = g - call("mean", g) - _hat(x) * call("mean", g * _hat(x))
    return Symbol(["mrow", ["mfrac", ["mn", "1"], _SPREAD.tree], inside.within(ATOM)], PREFIX, x._shape)


def _weighted_back(g: Symbol, x: Symbol) -> Symbol:
    return _each("∑", Symbol((g * _hat(x)).tree, ATOM, None), None)


def _count(x: Symbol, dim: Any) -> int:
    if dim is None or dim == ():
        return max(x.size, 1)
    return int(numpy.prod([x.shape[d] for d in ((dim,) if isinstance(dim, int) else dim)]))


def _spread(g: Symbol, dim: Any) -> Symbol:
    over = dims(dim)
    return _at(g, " for every element" if over is None else f" for every element along {over[1]}")


def _of_losses(inside: Symbol, reduction: str = "mean", **more: Any) -> Symbol:
    return inside if reduction == "none" else _each("∑", inside, None) if reduction == "sum" else call("mean", inside)


def _share(g: Symbol, x: Symbol, reduction: str) -> Symbol:
    return g / x.size if reduction == "mean" and x._shape is not None and x.size > 1 else g


def _added(g: Symbol, where: str, index: Symbol) -> Symbol:
    return Symbol(["mrow", g.tree, ["mtext", f"\u00a0added to the {where}\u00a0"], index.tree], ATOM, None)


def _at_class(g: Symbol, x: Symbol, t: Symbol, reduction: str) -> Symbol:
    share = g / x.shape[0] if reduction == "mean" and x.ndim > 1 and x.shape[0] > 1 else g
    return Symbol(["mrow", share.within(PREFIX), ["mo", "·"], ["msub", ["mn", "1"], t.tree]], PREFIX, x._shape)


def _entropy_of_two(x: Symbol, t: Symbol) -> Symbol:
    return -(t * call("ln", x) + (1 - t) * call("ln", 1 - x))


def _cdf(x: Symbol) -> Symbol:
    """Φ, the cumulative distribution function of the standard normal distribution."""
    return call("Φ", x)


def _by_length(x: Symbol) -> Symbol:
    return x / MATH.sqrt(call("mean", x**2) + Symbol(["mi", "ε"]))


def _by_length_back(g: Symbol, x: Symbol, weight: Symbol | None) -> Symbol:
    g = g if weight is None else g * weight
    root = MATH.sqrt(call("mean", x**2) + Symbol(["mi", "ε"]))
    inside = g - _hat(x) * call("mean", g * _hat(x))
    return Symbol(["mrow", ["mfrac", ["mn", "1"], root.tree], inside.within(ATOM)], PREFIX, x._shape)


def _length(x: Symbol, ord: Any = 2, **more: Any) -> Symbol:
    inside: Formula = ["mrow", ["mo", "‖"], x.tree, ["mo", "‖"]]
    return Symbol(["msub", inside, ["mn", f"{ord:g}" if isinstance(ord, (int, float)) else str(ord)]], ATOM, None)


FORMS |= {
    "rms_norm": lambda x, weight=None, **k: _by_length(x) if weight is None else _by_length(x) * weight,
    "batch_normalize": lambda x, weight=None, bias=None, *more, **k: _normalized(x, weight, bias),
    "gelu": lambda x, approximate="none", **k: x * _cdf(x),
    "var": lambda x, dim=None, **k: call("var", x), "std": lambda x, dim=None, **k: call("std", x),
    "vector_norm": _length,
    "binary_cross_entropy": lambda x, t, weight=None, reduction="mean", **k: _of_losses(_entropy_of_two(x, t), reduction),
    "contract": lambda *xs, equation="", **k: call("einsum", *xs, equation=equation),
}  # fmt: skip
BACKWARD |= {
    ("sum", "input"): lambda g, z, x, dim=None, **k: _spread(g, dim),
    ("mean", "input"): lambda g, z, x, dim=None, **k: _spread(g / _count(x, dim), dim),
    ("var", "input"): lambda g, z, x, dim=None, correction=1, **k: g * 2 / max(_count(x, dim) - correction, 1) * (x - call("mean", x)),
    ("std", "input"): lambda g, z, x, dim=None, correction=1, **k: g * ((x - call("mean", x)) / (max(_count(x, dim) - correction, 1) * z)),
    ("prod", "input"): lambda g, z, x, **k: _at(g, " times the product of the other elements"),
    ("abs", "input"): lambda g, z, x, **k: g * call("sgn", x),
    ("reshape", "input"): lambda g, z, x, **k: call("reshape", g),
    ("gather", "input"): lambda g, z, x, i, **k: _added(g, "places", i),
    ("max", "input"): lambda g, z, x, **k: _at(g, " where the maximum is, 0 elsewhere"),
    ("min", "input"): lambda g, z, x, **k: _at(g, " where the minimum is, 0 elsewhere"),
    ("cumsum", "input"): lambda g, z, x, dim=0, **k: _at(g, f" summed from the end along dim {dim}".replace("-", "−")),
    ("gelu", "input"): lambda g, z, x, **k: g * (_cdf(x) + x * call("φ", x)),
    ("vector_norm", "input"): lambda g, z, x, ord=2, **k: g * (x / z) if ord == 2 else call("∂vector_norm/∂input", g, x),
    ("nll_loss", "input"): lambda g, z, x, t, *m, reduction="mean", **k: -_at_class(g, x, t, reduction),
    ("binary_cross_entropy", "input"): lambda g, z, x, t, weight=None, reduction="mean", **k: _share(g, x, reduction)
    * ((x - t) / (x * (1 - x))),
    ("embedding", "weight"): lambda g, z, i, w, **k: _added(g, "rows", i),
    ("rms_norm", "weight"): lambda g, z, x, *m, **k: _weighted_back(g, x),
    ("pow", "input"): lambda g, z, x, p, **k: g * (2 * x) if p.tree == ["mn", "2"] else g * (p * x ** (p - 1)),
    ("rms_norm", "input"): lambda g, z, x, weight=None, **k: _by_length_back(g, x, weight),
    ("mse_loss", "input"): lambda g, z, x, t, reduction="mean", **k: _share(g, x, reduction) * (2 * (x - t)),
}  # fmt: skip
for _name in ("layer_norm", "group_norm", "batch_norm", "batch_normalize"):
    BACKWARD[_name, "input"] = lambda g, z, x, weight=None, *m, **k: _normalized_back(g, x, weight)
    BACKWARD[_name, "weight"] = lambda g, z, x, *m, **k: _weighted_back(g, x)
    BACKWARD[_name, "bias"] = lambda g, z, *m, **k: _each("∑", g, None)
