"""Elementwise functions: the engine's ops after promotion, adapted where PyTorch differs from the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import engine

from ..base.dtypes import INT
from ..core.tensor import Tensor
from .dtypes import alike


def published(function: Callable, name: str, of: Callable) -> Callable:
    """Set a function's name, and copy the docstring of the op that it calls."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = of.__doc__
    return function


def _one(name: str, op: str = "") -> Callable:
    op = op or name

    def function(x: Tensor, /) -> Tensor:
        _refuse_others(name, x)
        return getattr(engine, op)(x)  # looked up at each call, so that subclasses and modes can override it

    return published(function, name, getattr(engine, op))


def _two(name: str, op: str = "") -> Callable:
    op = op or name

    def function(x1: Any, x2: Any, /) -> Tensor:
        return getattr(engine, op)(*alike(x1, x2))

    return published(function, name, getattr(engine, op))


def _refuse_others(name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected an array, got {type(x).__name__}")


abs = _one("abs")
acos = _one("acos")
acosh = _one("acosh")
asin = _one("asin")
asinh = _one("asinh")
atan = _one("atan")
atanh = _one("atanh")
bitwise_invert = _one("bitwise_invert", "bitwise_not")
ceil = _one("ceil")
conj = _one("conj", "conj_physical")
cos = _one("cos")
cosh = _one("cosh")
exp = _one("exp")
floor = _one("floor")
isfinite = _one("isfinite")
isinf = _one("isinf")
isnan = _one("isnan")
log = _one("log")
log1p = _one("log1p")
log2 = _one("log2")
log10 = _one("log10")
logical_not = _one("logical_not")
negative = _one("negative", "neg")
positive = _one("positive")
real = _one("real")
reciprocal = _one("reciprocal")
signbit = _one("signbit")
sin = _one("sin")
sinh = _one("sinh")
sqrt = _one("sqrt")
square = _one("square")
tan = _one("tan")
trunc = _one("trunc")

add = _two("add")
atan2 = _two("atan2")
bitwise_and = _two("bitwise_and")
bitwise_left_shift = _two("bitwise_left_shift")
bitwise_or = _two("bitwise_or")
bitwise_right_shift = _two("bitwise_right_shift")
bitwise_xor = _two("bitwise_xor")
copysign = _two("copysign")
divide = _two("divide", "div")
equal = _two("equal", "eq")
floor_divide = _two("floor_divide")
greater = _two("greater", "gt")
greater_equal = _two("greater_equal", "ge")
hypot = _two("hypot")
less = _two("less", "lt")
less_equal = _two("less_equal", "le")
logaddexp = _two("logaddexp")
logical_and = _two("logical_and")
logical_or = _two("logical_or")
logical_xor = _two("logical_xor")
maximum = _two("maximum")
minimum = _two("minimum")
multiply = _two("multiply", "mul")
nextafter = _two("nextafter")
not_equal = _two("not_equal", "ne")
pow = _two("pow")
remainder = _two("remainder")
subtract = _two("subtract", "sub")


def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, accurate near 0."""
    _refuse_others("expm1", x)
    if not x.is_complex():
        return engine.expm1(x)
    out = engine.where(engine.isfinite(x), engine.expm1(x), engine.exp(x) - 1)  # infinities follow C99
    return engine.complex(out.real + 0, out.imag)  # a zero real part is +0


def imag(x: Tensor, /) -> Tensor:
    """Imaginary part of each element; 0 for real arrays."""
    _refuse_others("imag", x)
    return engine.imag(x) if x.is_complex() else engine.zeros_like(x)


def round(x: Tensor, /) -> Tensor:
    """Round each element to the nearest integer, ties to even; both parts of complex values."""
    _refuse_others("round", x)
    return engine.complex(engine.round(x.real), engine.round(x.imag)) if x.is_complex() else engine.round(x)


def sign(x: Tensor, /) -> Tensor:
    """Sign of each element: -1, 0 or 1; x / abs(x) for complex values; NaN for NaN."""
    _refuse_others("sign", x)
    if x.is_complex():
        return engine.sgn(x)
    return engine.where(engine.isnan(x), x, engine.sign(x)) if x.is_floating_point() else engine.sign(x)


def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent. If a real part is infinite, the result is ±1 with a zero that has the imaginary part's sign."""
    _refuse_others("tanh", x)
    if not x.is_complex():
        return engine.tanh(x)
    limit = engine.complex(engine.tanh(x.real), engine.copysign(engine.zeros_like(x.real), x.imag))
    return engine.where(engine.isinf(x.real), limit, engine.tanh(x))


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Clamp each element between `min` and `max` (scalars or arrays); NaN if a bound is NaN. The dtype is kept."""
    out = x.clone()
    for bound, choose, limit in ((min, engine.maximum, "min"), (max, engine.minimum, "max")):
        if isinstance(bound, Tensor):
            out = choose(out, bound.to(x.dtype))
        elif bound is not None and not _beyond(x, bound, limit):
            out = choose(out, engine.full((), bound, dtype=x.dtype, device=x.device))
    return out


def _beyond(x: Tensor, bound: float, limit: str) -> bool:
    """Return whether an integer bound is outside the dtype's range, so that it has no effect."""
    if x.dtype.rank != INT:
        return False
    end = getattr(engine.iinfo(x.dtype), limit)
    return bound <= end if limit == "min" else bound >= end
