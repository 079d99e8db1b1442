"""The table of op translations to ONNX, with most elementwise ops and reductions.

A translation is called as `fn(g, *inputs, **attrs)`, where `g` is the graph, inputs are tensor names (scalars have become constants of
the result's dtype) and attributes are the op's. It returns the name of the result, or a tuple of names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ..base import dtypes
from .graph import Graph
from .sizes import Dim

TABLE: dict[str, Callable] = {}

# ops with an ONNX equivalent that takes the same arguments
_ALIKE = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil",
    "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log", "logical_not": "Not",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sgn": "Sign",
    "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh", "isnan": "IsNaN",
    "isinf": "IsInf", "det": "Det", "add": "Add", "sub": "Sub", "mul": "Mul", "eq": "Equal", "lt": "Less",
    "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
    "maximum": "Max", "minimum": "Min", "pow": "Pow", "div": "Div", "fmax": "Max", "fmin": "Min", "matmul": "MatMul", "where": "Where",
}  # fmt: skip
LOGICAL = {"logical_and", "logical_or", "logical_xor", "logical_not"}  # operands are cast to bool


def translates(*names: str) -> Callable:
    """Register the decorated function as the translation of these ops."""

    def put(fn: Callable) -> Callable:
        TABLE.update(dict.fromkeys(names, fn))
        return fn

    return put


def _alike(name: str) -> Callable:
    return lambda g, *inputs, **attrs: g(name, *inputs)


TABLE |= {name: _alike(onnx) for name, onnx in _ALIKE.items()}


def number(g: Graph, x: float, like: Any = None) -> str:
    """Return a constant of the result's dtype."""
    return g.constant(x, g.event.outputs[0].array.dtype if like is None else like)


def _formulas() -> dict[str, Callable]:
    """Return translations of elementwise ops, many of them composed of several nodes."""
    n = number
    return {
        "ne": lambda g, x, y: g("Not", g("Equal", x, y)),
        "square": lambda g, x: g("Mul", x, x),
        "rsqrt": lambda g, x: g("Reciprocal", g("Sqrt", x)),
        "exp2": lambda g, x: g("Pow", n(g, 2), x),
        "expm1": lambda g, x: g("Sub", g("Exp", x), n(g, 1)),
        "log2": lambda g, x: g("Div", g("Log", x), n(g, math.log(2))),
        "log10": lambda g, x: g("Div", g("Log", x), n(g, math.log(10))),
        "log1p": lambda g, x: g("Log", g("Add", x, n(g, 1))),
        "erfc": lambda g, x: g("Sub", n(g, 1), g("Erf", x)),
        "mish": lambda g, x: g("Mul", x, g("Tanh", g("Softplus", x))),
        "hardswish": lambda g, x: g("Mul", x, g("HardSigmoid", x, alpha=1 / 6, beta=0.5)),
        "silu": lambda g, x: g("Mul", x, g("Sigmoid", x)),
        "relu6": lambda g, x: g("Clip", x, n(g, 0), n(g, 6)),
        "hardsigmoid": lambda g, x: g("HardSigmoid", x, alpha=1 / 6, beta=0.5),
        "hardtanh": lambda g, x, min_val, max_val: g("Clip", x, n(g, min_val), n(g, max_val)),
        "leaky_relu": lambda g, x, negative_slope: g("LeakyRelu", x, alpha=float(negative_slope)),
        "elu": lambda g, x, alpha: g("Elu", x, alpha=float(alpha)),
        "celu": lambda g, x, alpha: g("Celu", x, alpha=float(alpha)),
        "selu": lambda g, x: g("Selu", x),
        "softplus": _softplus,
        "logsigmoid": lambda g, x: g("Neg", g("Softplus", g("Neg", x))),
        "tanhshrink": lambda g, x: g("Sub", x, g("Tanh", x)),
        "softshrink": lambda g, x, lambd: g("Shrink", x, lambd=float(lambd), bias=float(lambd)),
        "hardshrink": lambda g, x, lambd: g("Shrink", x, lambd=float(lambd)),
        "threshold": lambda g, x, threshold, value: g("Where", g("Greater", x, n(g, threshold)), x, n(g, value)),
        "prelu_kernel": lambda g, x, weight: g("PRelu", x, weight),
        "clamp": lambda g, x, low, high: g("Min", *[v for v in (g("Max", *[v for v in (x, low) if v is not None]), high) if v is not None]),
        "clamp_min": lambda g, x, low: g("Max", x, low),
        "clamp_max": lambda g, x, high: g("Min", x, high),
        "masked_fill": lambda g, x, mask, value: g("Where", mask, value, x),
        "masked_scale": lambda g, x, mask, scale: g("Mul", g("Mul", x, g.cast(mask, g.event.outputs[0].array.dtype)), n(g, scale)),
        "lerp": lambda g, x, end, weight: g("Add", x, g("Mul", weight, g("Sub", end, x))),
        "addcmul": lambda g, x, a, b, value: g("Add", x, g("Mul", n(g, value), g("Mul", a, b))),
        "addcdiv": lambda g, x, a, b, value: g("Add", x, g("Mul", n(g, value), g("Div", a, b))),
        "logaddexp": lambda g, x, y: g("Add", g("Max", x, y), g("Log", g("Add", n(g, 1), g("Exp", g("Neg", g("Abs", g("Sub", x, y))))))),
        "hypot": lambda g, x, y: g("Sqrt", g("Add", g("Mul", x, x), g("Mul", y, y))),
        "frac": lambda g, x: g("Sub", x, _trunc(g, x)),
        "deg2rad": lambda g, x: g("Mul", x, n(g, math.pi / 180)),
        "rad2deg": lambda g, x: g("Mul", x, n(g, 180 / math.pi)),
        "isfinite": lambda g, x: g("Not", g("Or", g("IsInf", x), g("IsNaN", x))),
        "mse_loss": lambda g, x, y, reduction: _reduced(g, g("Mul", g("Sub", x, y), g("Sub", x, y)), reduction),
        "l1_loss": lambda g, x, y, reduction: _reduced(g, g("Abs", g("Sub", x, y)), reduction),
        "copy": lambda g, x, src: g("Expand", src, g("Shape", x)),
        "fill": lambda g, x, value: g("Expand", value, g("Shape", x)),
        "clone": lambda g, x, memory_format=None: g("Identity", x),
        "conj": lambda g, x: g("Identity", x),
        "real": lambda g, x: g("Identity", x),
        "to_device": lambda g, x, device, source: g("Identity", x),
        "to_dtype": lambda g, x, dtype: g.cast(x, dtype),
    }


def _softplus(g: Graph, x: str, beta: float, threshold: float) -> str:
    if beta == 1:
        return g("Softplus", x)
    return g("Div", g("Softplus", g("Mul", x, number(g, beta))), number(g, beta))


@translates("gelu")
def _gelu(g: Graph, x: str, approximate: str) -> str:
    """x Phi(x), or its tanh approximation (Hendrycks and Gimpel, 2016)."""
    if g.opset >= 20:
        return g("Gelu", x, approximate=approximate)
    half = g("Mul", x, number(g, 0.5))
    if approximate == "none":
        return g("Mul", half, g("Add", number(g, 1), g("Erf", g("Mul", x, number(g, math.sqrt(0.5))))))
    cubic = g("Mul", number(g, 0.044715), g("Mul", x, g("Mul", x, x)))
    inner = g("Mul", number(g, math.sqrt(2 / math.pi)), g("Add", x, cubic))
    return g("Mul", half, g("Add", number(g, 1), g("Tanh", inner)))


@translates("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
def _bitwise(g: Graph, *inputs: str) -> str:
    word = g.event.op.removeprefix("bitwise_").capitalize()
    return g(word if g.event.outputs[0].array.dtype == bool else f"Bitwise{word}", *inputs)


def _wide(g: Graph, *names: str) -> list[str]:
    """Cast integers to 64 bits, since fewer kernels support narrow ones and floats are exact only to 53 bits."""
    return names if g.event.outputs[0].array.dtype == numpy.int64 else [g.cast(name, dtypes.int64) for name in names]  # type: ignore[return-value]


def _narrow(g: Graph, name: str) -> str:
    d = g.event.outputs[0].array.dtype
    return name if d == numpy.int64 else g.cast(name, d)


@translates("floor_divide")
def _floor_divide(g: Graph, x: str, y: str) -> str:
    """Floor division. ONNX truncates integer quotients: subtract 1 if the remainder is non-zero and its sign differs from the divisor's."""
    if g.event.outputs[0].array.dtype.kind == "f":
        return g("Floor", g("Div", x, y))
    x, y = _wide(g, x, y)
    zero, q = g.constant(0, numpy.int64), g("Div", x, y)
    rest = g("Sub", x, g("Mul", q, y))
    less = g("And", g("Not", g("Equal", rest, zero)), g("Xor", g("Less", rest, zero), g("Less", y, zero)))
    return _narrow(g, g("Sub", q, g.cast(less, dtypes.int64)))


@translates("trunc_divide")
def _trunc_divide(g: Graph, x: str, y: str) -> str:
    if g.event.outputs[0].array.dtype.kind == "f":
        return _trunc(g, g("Div", x, y))
    return _narrow(g, g("Div", *_wide(g, x, y)))


@translates("remainder")
def _remainder(g: Graph, x: str, y: str) -> str:
    """Remainder with the divisor's sign."""
    if g.event.outputs[0].array.dtype.kind != "f":
        return g("Mod", x, y)
    return g("Sub", x, g("Mul", y, g("Floor", g("Div", x, y))))


@translates("fmod")
def _fmod(g: Graph, x: str, y: str) -> str:
    """Remainder with the dividend's sign. onnxruntime's own op for integers goes through float64."""
    if g.event.outputs[0].array.dtype.kind == "f":
        return g("Mod", x, y, fmod=1)
    x, y = _wide(g, x, y)
    return _narrow(g, g("Sub", x, g("Mul", g("Div", x, y), y)))


@translates("trunc")
def _trunc(g: Graph, x: str) -> str:
    return g("Mul", g("Sign", x), g("Floor", g("Abs", x)))


# -- reductions -----------------------------------------------------------------------------------------------------------------------


def axes_of(dim: Any) -> list[int] | None:
    """Return the dimensions of a reduction, or None for all."""
    if dim is None or dim == ():
        return None
    return [int(d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]


def reduce(g: Graph, op: str, x: str, dim: Any, keepdim: bool) -> str:
    """Add a `Reduce...` node; its dimensions are an input since opset 18."""
    axes = axes_of(dim)
    if g.opset < 18 and op != "ReduceSum":
        return g(op, x, axes=axes, keepdims=int(keepdim))
    return g(op, x, None if axes is None else g.constant(axes, numpy.int64), keepdims=int(keepdim))


def _reduced(g: Graph, x: str, reduction: str) -> str:
    return x if reduction == "none" else reduce(g, {"mean": "ReduceMean", "sum": "ReduceSum"}[reduction], x, None, False)


def _reduction(op: str) -> Callable:
    def translate(g: Graph, x: str, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> str:
        source, d = g.event.inputs[0].array.dtype, g.event.outputs[0].array.dtype
        if source != d:
            x = g.cast(x, d)
        return reduce(g, op, x, dim, keepdim)

    return translate


TABLE |= {
    "sum": _reduction("ReduceSum"), "mean": _reduction("ReduceMean"), "prod": _reduction("ReduceProd"),
    "logsumexp": _reduction("ReduceLogSumExp"),
    **dict.fromkeys(("amax", "max_of_all"), _reduction("ReduceMax")), **dict.fromkeys(("amin", "min_of_all"), _reduction("ReduceMin")),
}  # fmt: skip


@translates("var", "std")
def _var(g: Graph, x: str, dim: Any, correction: float, keepdim: bool) -> str:
    shape = g.shape_of(0)
    axes = axes_of(dim) or list(range(len(shape)))
    off = g("Sub", x, reduce(g, "ReduceMean", x, axes, True))
    squares = reduce(g, "ReduceSum", g("Mul", off, off), axes, keepdim)
    sizes = [shape[a] for a in axes]
    if any(isinstance(n, Dim) for n in sizes):
        lengths = g.cast(g("Gather", g("Shape", x), g.constant([a % len(shape) for a in axes], numpy.int64), axis=0), dtypes.float32)
        count = g.cast(reduce(g, "ReduceProd", lengths, [0], False), g.event.outputs[0].array.dtype)
        count = g("Max", g("Sub", count, number(g, correction)), number(g, 0))
    else:
        count = number(g, max(0, math.prod(sizes) - correction))
    found = g("Div", squares, count)
    return g("Sqrt", found) if g.event.op == "std" else found


@translates("vector_norm")
def _vector_norm(g: Graph, x: str, ord: float, dim: Any, keepdim: bool, dtype: Any) -> str:
    if ord == 2:
        return reduce(g, "ReduceL2", x, dim, keepdim)
    if ord == 1:
        return reduce(g, "ReduceL1", x, dim, keepdim)
    if math.isinf(ord):
        return reduce(g, "ReduceMax" if ord > 0 else "ReduceMin", g("Abs", x), dim, keepdim)
    return g("Pow", reduce(g, "ReduceSum", g("Pow", g("Abs", x), number(g, ord)), dim, keepdim), number(g, 1 / ord))


@translates("max", "min")
def _max(g: Graph, x: str, dim: int, keepdim: bool) -> tuple:
    name = g.event.op.capitalize()
    return reduce(g, f"Reduce{name}", x, dim, keepdim), g(f"Arg{name}", x, axis=int(dim), keepdims=int(keepdim))


@translates("argmax", "argmin")
def _argmax(g: Graph, x: str, dim: int | None, keepdim: bool) -> str:
    name = "ArgMax" if g.event.op == "argmax" else "ArgMin"
    if dim is None:
        return g(name, g("Reshape", x, g.constant([-1], numpy.int64)), axis=0, keepdims=0)
    return g(name, x, axis=int(dim), keepdims=int(keepdim))


@translates("all", "any")
def _all(g: Graph, x: str, dim: Any, keepdim: bool) -> str:
    counted = g.cast(g.cast(x, dtypes.bool_), dtypes.int32)
    return g.cast(reduce(g, "ReduceMin" if g.event.op == "all" else "ReduceMax", counted, dim, keepdim), dtypes.bool_)


@translates("softmax", "log_softmax")
def _softmax(g: Graph, x: str, dim: int, dtype: Any) -> str:
    x = x if dtype is None else g.cast(x, dtype)
    return g("Softmax" if g.event.op == "softmax" else "LogSoftmax", x, axis=int(dim))


@translates("cumsum")
def _cumsum(g: Graph, x: str, dim: int, dtype: Any) -> str:
    d = g.event.outputs[0].array.dtype
    return g("CumSum", x if g.event.inputs[0].array.dtype == d else g.cast(x, d), g.constant(int(dim), numpy.int64))


@translates("topk")
def _topk(g: Graph, x: str, k: int, dim: int, largest: bool, sorted: bool) -> tuple:
    return tuple(g("TopK", x, g.size(k), axis=int(dim), largest=int(largest), sorted=int(sorted), outputs=2))


@translates("sort")
def _sort(g: Graph, x: str, dim: int, descending: bool, stable: bool) -> tuple:
    return tuple(g("TopK", x, g.size(g.shape_of(0)[dim]), axis=int(dim), largest=int(descending), outputs=2))


TABLE |= _formulas()
