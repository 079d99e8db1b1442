"""Elementwise functions as formulas of a namespace's other functions. They are both CuPy code and the text of a kernel: see `symbols`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes

from ...base.dtypes import FROM_NUMPY, fitting
from ...base.errors import Refused

_FORMULAS: dict[str, Callable] = {}
_TANH = math.sqrt(2 / math.pi)


def bound(xp: Any) -> dict[str, Callable]:
    """Return the functions of this file for a namespace."""
    return {name: functools.partial(formula, xp) for name, formula in _FORMULAS.items()}


def _formula(fn: Callable) -> Callable:
    _FORMULAS[fn.__name__] = fn
    return fn


@_formula
def sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)); exp may overflow to infinity, which gives the right limit."""
    return 1 / (1 + xp.exp(-x))


@_formula
def silu(xp: Any, x: Any) -> Any:
    return x / (1 + xp.exp(-x))


@_formula
def gelu(xp: Any, x: Any, approximate: str = "none") -> Any:
    """x times the standard normal distribution function of x, or its tanh approximation."""
    if approximate == "tanh":
        return x * (0.5 * (1 + xp.tanh(_TANH * x * (1 + 0.044715 * x * x))))
    if approximate != "none":
        raise Refused("approximate argument must be either none or tanh.", RuntimeError if isinstance(approximate, str) else TypeError)
    return x * (0.5 * (1 + xp.erf(x * math.sqrt(0.5))))


@_formula
def gelu_slope(xp: Any, x: Any, approximate: str = "none") -> Any:
    """The derivative of `gelu`."""
    if approximate == "none":
        return 0.5 * (1 + xp.erf(x * math.sqrt(0.5))) + x * xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    t = xp.tanh(_TANH * x * (1 + 0.044715 * x * x))
    return 0.5 * (1 + t) + (0.5 * _TANH) * x * (1 - t * t) * (1 + 0.134145 * x * x)


@_formula
def relu(xp: Any, x: Any) -> Any:
    return xp.maximum(x, 0)


@_formula
def softplus(xp: Any, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta; `x` where beta x exceeds the threshold."""
    scaled = x * beta
    return xp.where(scaled > threshold, x, xp.log1p(xp.exp(xp.minimum(scaled, threshold))) / beta)


@_formula
def log_sigmoid(xp: Any, x: Any) -> Any:
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


@_formula
def logit(xp: Any, x: Any, eps: float | None = None) -> Any:
    x = x if eps is None else xp.clip(x, eps, 1 - eps)
    return xp.log(x / (1 - x))


@_formula
def hardtanh(xp: Any, x: Any, low: float, high: float) -> Any:
    """Limit `x` to [low, high], in the dtype of `x`."""
    if x.dtype.kind in "iu":
        low, high = x.dtype.type(int(low)), x.dtype.type(int(high))
    return xp.clip(x, low, high)


@_formula
def threshold(xp: Any, x: Any, threshold: float, value: float) -> Any:
    """`x` where it is greater than the threshold or nan, else `value`, in the dtype of `x`."""
    if isinstance(threshold, (tuple, list)) or isinstance(value, (tuple, list)):
        raise Refused("threshold and value must be Numbers", TypeError)
    if x.dtype.kind in "iu":
        threshold, value = (fitting(number, FROM_NUMPY[x.dtype]) for number in (threshold, value))
    return xp.where(x <= threshold, value, x)


@_formula
def lerp(xp: Any, x: Any, end: Any, weight: Any) -> Any:
    """Interpolate between `x` and `end`, starting from the nearer, so that weight 1 gives `end` exactly."""
    step = end - x
    if not hasattr(weight, "dtype"):
        return x + weight * step if abs(weight) < 0.5 else end - step * (1 - weight)
    return xp.where(abs(weight) < 0.5, x + weight * step, end - step * (1 - weight))


@_formula
def sinc(xp: Any, x: Any) -> Any:
    y = math.pi * xp.where(x == 0, 1, x)
    return xp.where(x == 0, 1, xp.sin(y) / y)


@_formula
def angle(xp: Any, x: Any) -> Any:
    """Angle in radians: pi for negative real numbers, 0 for others, including -0; a nan stays."""
    return xp.arctan2(x.imag, x.real) if x.dtype.kind == "c" else xp.where(x < 0, math.pi, xp.where(x != x, x, 0))


@_formula
def times_i(xp: Any, x: Any) -> Any:
    """Multiply by the imaginary unit, exactly: the product with 1j would have nan for infinities."""
    return xp.from_parts(-x.imag, x.real) if x.dtype.kind == "c" else xp.from_parts(xp.zeros_like(x), x)


@_formula
def xlogy(xp: Any, x: Any, y: Any) -> Any:
    return xp.where((x == 0) & ~xp.isnan(y), 0, x * xp.log(y))


@_formula
def xlog1py(xp: Any, x: Any, y: Any) -> Any:
    return xp.where((x == 0) & ~xp.isnan(y), 0, x * xp.log1p(y))


@_formula
def entr(xp: Any, x: Any) -> Any:
    """-x log(x); 0 at 0 and -inf for negative numbers."""
    return xp.where(x > 0, -x * xp.log(x), xp.where(x == 0, 0, xp.where(xp.isnan(x), x, -math.inf)))


@_formula
def logaddexp(xp: Any, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), without overflow."""
    high, low = xp.maximum(x, y), xp.minimum(x, y)
    return xp.where(x == y, high + math.log(2), high + xp.log1p(xp.exp(low - high)))  # infinities have no difference


@_formula
def logaddexp2(xp: Any, x: Any, y: Any) -> Any:
    high, low = xp.maximum(x, y), xp.minimum(x, y)
    return xp.where(x == y, high + 1, high + xp.log1p(xp.exp2(low - high)) * (1 / math.log(2)))


@_formula
def nan_to_num(xp: Any, x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Replace nan and the infinities, by default with 0 and the dtype's largest finite values."""
    if x.dtype.kind in "biu":
        return x
    most = float(ml_dtypes.finfo(x.dtype).max)
    finite = xp.where(x == -math.inf, -most if neginf is None else neginf, x)
    finite = xp.where(x == math.inf, most if posinf is None else posinf, finite)
    return xp.where(x != x, nan, finite).astype(x.dtype, copy=False)


@_formula
def isclose(xp: Any, x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    near = (xp.abs(x - y) <= atol + rtol * xp.abs(y)) & xp.isfinite(y) | (x == y)
    return near | ((x != x) & (y != y)) if equal_nan else near


@_formula
def round(xp: Any, x: Any, decimals: int = 0) -> Any:
    """Round to the nearest, halves to even; `decimals` is Refused for integers."""
    if x.dtype.kind in "iu":
        if decimals:
            raise Refused('"round" with decimals not implemented for integers', NotImplementedError)
        return x
    if not decimals:
        return xp.rint(x)
    power = 10.0 ** abs(decimals)
    return xp.rint(x * power) / power if decimals > 0 else xp.rint(x / power) * power
