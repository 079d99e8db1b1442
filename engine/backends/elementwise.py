"""Elementwise functions that NumPy lacks, computes slowly, or defines differently from PyTorch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from ..base import dtypes
from ..base.errors import Refused
from . import fused

__all__ = [
    "angle", "clip", "conj", "floor_divide", "fmod", "from_parts", "gcd", "gelu", "gelu_slope", "hardtanh", "imag", "lcm", "lerp",
    "log1p", "log_sigmoid", "logaddexp", "logit", "power", "relu", "remainder", "round", "sgn",
    "sigmoid", "sign", "silu", "sinc", "softplus", "threshold", "times_i", "trunc_divide", "where",
]  # fmt: skip

BLOCK = 65536  # elements; the buffers of one block fit in the second-level cache
_BITS = {numpy.dtype("float32"): numpy.dtype("int32"), numpy.dtype("float64"): numpy.dtype("int64")}


# -- selection -----------------------------------------------------------------------------------------------------------------


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition`, else `y`. NumPy's `where` branches at each element: on 1e6, 15 times slower than masking whole words."""
    if not isinstance(condition, numpy.ndarray) or condition.size < 2048:
        return numpy.where(condition, x, y)
    if y.__class__ in (int, float) and y == 0 and math.copysign(1, y) > 0:
        keep, value = condition, x
    elif x.__class__ in (int, float) and x == 0 and math.copysign(1, x) > 0:
        keep, value = None, y
    else:
        return _select(condition, x, y)
    if getattr(value, "dtype", None) not in _BITS:
        return numpy.where(condition, x, y)
    return kept(value, numpy.logical_not(condition) if keep is None else keep)


def kept(x: Any, keep: Any, out: Any = None) -> Any:
    """`x` where `keep`, else 0 (also for a nan); float words are multiplied by 0 or 1 as integers. Written into `out` if given."""
    bits = _BITS.get(x.dtype) if isinstance(x, numpy.ndarray) else None
    if bits is not None:
        return numpy.multiply(x.view(bits), keep, out=None if out is None else out.view(bits), dtype=bits).view(x.dtype)
    found = numpy.where(keep, x, x.dtype.type(0))
    if out is None:
        return found
    out[...] = found
    return out


def _select(condition: Any, x: Any, y: Any) -> Any:
    """`where` for two arrays, on whole words if possible: `y ^ ((x ^ y) * condition)`."""
    whole = all(isinstance(a, numpy.ndarray) and a.shape == condition.shape and a.flags.c_contiguous for a in (x, y))
    bits = _BITS.get(x.dtype) if whole and x.dtype == y.dtype else None
    if bits is None:
        return numpy.where(condition, x, y)
    x, y = x.view(bits), y.view(bits)
    out = numpy.bitwise_xor(x, y)
    numpy.multiply(out, condition, out=out, dtype=bits)
    return numpy.bitwise_xor(out, y, out=out).view({v: k for k, v in _BITS.items()}[bits])


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """Limit `x` to [low, high]; `high` where they cross. A nan stays. Refused without any bound."""
    if low is None and high is None:
        raise Refused("At least one of 'min' or 'max' must not be None")
    large = x.__class__ is numpy.ndarray and x.size > 2048 and x.dtype in _BITS
    if large and all(b is None or b.__class__ in (int, float) for b in (low, high)):
        # 4 times faster than `maximum` with a scalar
        return numpy.clip(x, -math.inf if low is None else low, math.inf if high is None else high)
    if low is None or high is None:
        return numpy.maximum(x, low) if high is None else numpy.minimum(x, high)
    return numpy.minimum(numpy.maximum(x, low), high)


# -- arithmetic by PyTorch's rules ---------------------------------------------------------------------------------------------


def _no_zero(x: Any, divisor: Any) -> None:
    """Refuse an integer division by zero, which has no infinity as its result."""
    kind = (x if hasattr(x, "dtype") else divisor).dtype.kind
    if kind in "iu" and numpy.any(numpy.equal(divisor, 0)):
        raise Refused("ZeroDivisionError: an integer was divided by zero")


def floor_divide(x: Any, y: Any) -> Any:
    _no_zero(x, y)
    return numpy.floor_divide(x, y)


def remainder(x: Any, y: Any) -> Any:
    """Remainder of x / y with the sign of `y`; Refused for an integer divided by 0."""
    _no_zero(x, y)
    return numpy.remainder(x, y)


def fmod(x: Any, y: Any) -> Any:
    """Remainder of x / y with the sign of `x`; Refused for an integer divided by 0."""
    _no_zero(x, y)
    return numpy.fmod(x, y)


def trunc_divide(x: Any, y: Any) -> Any:
    """Quotient rounded towards zero; Refused for an integer divided by 0."""
    _no_zero(x, y)
    kind = (x if hasattr(x, "dtype") else y).dtype.kind
    return (x - numpy.fmod(x, y)) // y if kind in "iu" else numpy.trunc(x / y)


def gcd(x: Any, y: Any) -> Any:
    """Greatest common divisor; for the smallest integer, whose absolute value overflows, with the sign of Euclid's algorithm in C."""
    out = numpy.gcd(x, y)
    least = numpy.iinfo(out.dtype).min
    if not least or not ((x == least).any() or (y == least).any()):
        return out
    a, b = numpy.broadcast_arrays(numpy.abs(x), numpy.abs(y))
    while a.any():
        a, b = numpy.where(a != 0, numpy.fmod(b, numpy.where(a != 0, a, 1)), 0), numpy.where(a != 0, a, b)
    return b


def lcm(x: Any, y: Any) -> Any:
    """Least common multiple; where an int32 or int64 wraps around, its absolute value, as C's `abs` gives."""
    out = numpy.lcm(x, y)
    return numpy.abs(out) if out.itemsize >= 4 else out


def power(x: Any, y: Any) -> Any:
    """`x ** y`; an integer to a negative integer power is 0 unless its reciprocal is an integer."""
    if getattr(x, "dtype", None) == numpy.bool_:
        return numpy.logical_or(x, numpy.logical_not(y))
    if y.__class__ is int or y.__class__ is float:
        if y == 2:
            return x * x
        if y == 3:
            return x * x * x
        # as PyTorch does: square roots of -0 and -inf differ from their powers
        return 1 / numpy.sqrt(x) if y == -0.5 and x.dtype.kind == "f" else x**y
    if isinstance(y, numpy.ndarray) and y.dtype.kind == "i" and (y < 0).any():
        unit = numpy.where(numpy.equal(x, 1), 1, numpy.where(numpy.equal(x, -1), 1 - 2 * (y & 1), 0))
        return numpy.where(y < 0, unit.astype(y.dtype), numpy.asarray(x) ** numpy.maximum(y, 0))
    if isinstance(y, numpy.ndarray) and y.dtype.kind == "f" and _has_rows_of_halves(x, y):
        x = numpy.asarray(x, None if hasattr(x, "dtype") else y.dtype)
        x = numpy.where((y == 0.5) & ((x == 0) | numpy.isinf(x)), abs(x), x)
    return x**y


def _has_rows_of_halves(x: Any, y: numpy.ndarray) -> bool:
    """Whether NumPy may get the exponent 1/2 for a whole row: it then takes square roots, which differ from powers for -0 and -inf."""
    if y.ndim == 0:
        return y.item() == 0.5
    return (y.shape != getattr(x, "shape", ()) or 0 in y.strides) and bool((y == 0.5).any())


def log1p(x: Any) -> Any:
    """log(1 + x), accurate near 0 also for complex numbers, for which NumPy rounds 1 + x first."""
    out: Any = numpy.log1p(x)
    if out.dtype.kind != "c":
        return out
    out, a, b = numpy.asarray(out), x.real, x.imag
    out.real[...] = numpy.where(abs(x) < 0.5, 0.5 * numpy.log1p(a * (2 + a) + b * b), out.real)
    return out


def sign(x: Any) -> Any:
    """-1, 0 or 1, and 0 for nan, as in PyTorch; for complex numbers x / |x|, and nan if they are not finite."""
    if x.dtype.kind in "bc":
        return x.copy() if x.dtype.kind == "b" else numpy.where(numpy.isfinite(x), numpy.sign(x), x.dtype.type(complex("nan+nanj")))
    return ((x > 0).view("int8") - (x < 0).view("int8")).astype(x.dtype)


sgn = sign


def conj(x: Any) -> Any:
    """Complex conjugate; a real array is returned uncopied."""
    return x.conj()


def imag(x: Any) -> Any:
    """Imaginary part of a complex array, a view of it; Refused for other arrays."""
    if x.dtype.kind != "c":
        raise Refused("imag is not implemented for tensors with non-complex dtypes")
    return x.imag


def from_parts(real: Any, imag: Any) -> Any:
    """Complex numbers from their parts. The sum real + imag * 1j would lose -0, and infinity times 1j has a nan."""
    out = numpy.add(real, imag, dtype=numpy.result_type(real.dtype, imag.dtype, numpy.complex64))[...]
    out.real, out.imag = real, imag
    return out


def times_i(x: Any) -> Any:
    """Multiply by the imaginary unit, exactly: see `from_parts`."""
    return from_parts(-x.imag, x.real) if x.dtype.kind == "c" else from_parts(numpy.zeros_like(x), x)


def angle(x: Any) -> Any:
    """Angle in radians: pi for negative real numbers, 0 for others, including -0; a nan stays."""
    if x.dtype.kind == "c":
        return numpy.arctan2(x.imag, x.real)
    return numpy.where(x < 0, numpy.pi, numpy.where(x != x, x, 0)).astype(x.dtype, copy=False)


def round(x: Any, decimals: int = 0) -> Any:
    """Round to the nearest, halves to even; `decimals` is Refused for integers."""
    if x.dtype.kind in "iu":
        if decimals:
            raise Refused('"round" with decimals not implemented for integers', NotImplementedError)
        return x.copy()
    return numpy.rint(x) if decimals == 0 else numpy.round(x, decimals)


def lerp(x: Any, end: Any, weight: Any) -> Any:
    """Interpolate between `x` and `end`, starting from the nearer, so that weight 1 gives `end` exactly."""
    step = end - x
    if not hasattr(weight, "shape") or weight.ndim == 0:
        return x + weight * step if abs(weight) < 0.5 else end - step * (1 - weight)
    return numpy.where(numpy.abs(weight) < 0.5, x + weight * step, end - step * (1 - weight))


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at 0."""
    y = numpy.pi * numpy.where(x == 0, 1, x).astype(x.dtype, copy=False)
    return numpy.where(x == 0, 1, numpy.sin(y) / y).astype(x.dtype, copy=False)


# -- activations ---------------------------------------------------------------------------------------------------------------

_zeros: dict[Any, numpy.ndarray] = {}  # dtype -> zeros: `maximum` is faster with an array than with a scalar


def relu(x: Any) -> Any:
    """`max(x, 0)`; a nan stays."""
    if x.__class__ is not numpy.ndarray or x.ndim > 1 and not x.flags.c_contiguous:
        return numpy.maximum(x, 0)
    if x.size > 8192:
        return clip(x, 0, None)
    zeros = _zeros.get(x.dtype)
    if zeros is None:
        zeros = _zeros[x.dtype] = numpy.zeros(8192, x.dtype)
    return numpy.maximum(x, zeros[: x.size].reshape(x.shape))


def in_blocks(fn: Callable) -> Callable:
    """Decorate `fn(x, ...)` to run block by block over a large contiguous array, so that its passes stay in the cache."""

    @functools.wraps(fn)
    def call(x: Any, *args: Any) -> Any:
        if x.size < 2 * BLOCK or x.__class__ is not numpy.ndarray or not x.flags.c_contiguous:
            return fn(x, *args)
        out, flat = numpy.empty_like(x), x.reshape(-1)
        target = out.reshape(-1)
        for i in range(0, x.size, BLOCK):
            target[i : i + BLOCK] = fn(flat[i : i + BLOCK], *args)
        return out

    return call


def _one_plus_exp_minus(x: Any) -> Any:
    out = numpy.asarray(numpy.negative(x))
    numpy.exp(out, out=out)
    out += 1
    return out


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); exp may overflow to infinity, which gives the right limit."""
    if (found := fused.each("sigmoid", x)) is not None:
        return found
    out = _one_plus_exp_minus(x)
    return numpy.divide(1, out, out=out)


def silu(x: Any) -> Any:
    """x / (1 + exp(-x))."""
    if (found := fused.each("silu", x)) is not None:
        return found
    out = _one_plus_exp_minus(x)
    return numpy.divide(x, out, out=out)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta; `x` where beta x exceeds the threshold."""
    found = fused.each("softplus", x, numbers=(beta, threshold))
    return _softplus(x, beta, threshold) if found is None else found


@in_blocks
def _softplus(x: Any, beta: float, threshold: float) -> Any:
    scaled = x if beta == 1 else x * beta
    smooth = -_log_sigmoid(-scaled)
    return where(scaled > threshold, x, smooth if beta == 1 else smooth / beta)


def logit(x: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)), with x first clipped to [eps, 1 - eps] if `eps` is given."""
    x = x if eps is None else clip(x, eps, 1 - eps)
    return numpy.log(x / (1 - x))


def hardtanh(x: Any, low: float, high: float) -> Any:
    """Limit `x` to [low, high], in the dtype of `x`. OverflowError for a negative bound of unsigned integers."""
    if x.dtype.kind in "iu":
        low, high = x.dtype.type(int(low)), x.dtype.type(int(high))
    return clip(x, low, high)


def threshold(x: Any, threshold: float, value: float) -> Any:
    """`x` where it is greater than the threshold or nan, else `value`, in the dtype of `x`. Refused (TypeError) for tuples and lists."""
    if isinstance(threshold, (tuple, list)) or isinstance(value, (tuple, list)):
        raise Refused("threshold and value must be Numbers", TypeError)
    threshold, value = (dtypes.fitting(number, dtypes.FROM_NUMPY[x.dtype]) for number in (threshold, value))
    return numpy.where(x <= threshold, x.dtype.type(value), x)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), without overflow, also for complex numbers."""
    if numpy.result_type(x, y).kind != "c":
        return numpy.logaddexp(x, y)
    first = x.real >= y.real
    high, low = numpy.where(first, x, y), numpy.where(first, y, x)
    return high + numpy.log1p(numpy.exp(low - high))


def log_sigmoid(x: Any) -> Any:
    """log(1 / (1 + exp(-x))), without overflow."""
    found = fused.each("log_sigmoid", x)
    return _log_sigmoid(x) if found is None else found


@in_blocks
def _log_sigmoid(x: Any) -> Any:
    e = numpy.exp(-numpy.abs(x))
    if e.dtype != numpy.float32:
        return clip(x, None, 0) - numpy.log1p(e)
    near = 1 + e  # for float32, log1p takes 6 times as long as log, whose error by the rounding of 1 + e is corrected here
    return clip(x, None, 0) - (numpy.log(near) + (e - (near - 1)) / near)


# The normal distribution function is (1 + tanh(x P(x^2))) / 2 with this polynomial P up to |x| = 5.5, where it is 1 in float32.
# P is a least-squares fit of atanh(erf(x)) / x, reweighted to minimize the largest error: 1e-7.
CDF = tuple(
    c * 0.5 ** (k + 0.5)
    for k, c in enumerate(
        (1.1283792739796248, 0.10276905849978143, -0.0001918363889277153, -0.0006197802788624728, 8.7635829594725e-05,
         -5.6682529935056165e-06, 1.4184061464332338e-07)
    )
)  # fmt: skip
CDF_END = 2 * 3.9**2


def normal_cdf(x: Any) -> Any:
    """Standard normal distribution function, (1 + erf(x / sqrt 2)) / 2, in the precision of `x`."""
    if x.dtype != numpy.float32 or not isinstance(x, numpy.ndarray):
        from scipy.special import erf  # imported on first use

        return 0.5 * (1 + erf(x * math.sqrt(0.5)))
    square = numpy.asarray(clip(x * x, None, CDF_END))
    out = numpy.asarray(square * CDF[-1])
    for c in CDF[-2:0:-1]:
        out += c
        out *= square
    out += CDF[0]
    out *= x
    numpy.tanh(out, out=out)
    out += 1
    out *= 0.5
    return out


_TANH = math.sqrt(2 / math.pi)


def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the standard normal distribution function of x, or its approximation by "tanh"; Refused for another `approximate`."""
    kernel = _GELUS.get(approximate) if isinstance(approximate, str) else None
    found = None if kernel is None else fused.each(kernel, x)
    return _gelu(x, approximate) if found is None else found


_GELUS = {"none": "gelu", "tanh": "gelu_tanh"}


@in_blocks
def _gelu(x: Any, approximate: str) -> Any:
    if approximate == "none":
        out = numpy.asarray(normal_cdf(x))
    elif approximate == "tanh":
        out = numpy.asarray(_TANH * x)
        out *= 1 + 0.044715 * (x * x)
        numpy.tanh(out, out=out)
        out += 1
        out *= 0.5
    else:
        raise Refused("approximate argument must be either none or tanh.", RuntimeError if isinstance(approximate, str) else TypeError)
    return numpy.multiply(out, x, out=out)


@in_blocks
def gelu_slope(x: Any, approximate: str = "none") -> Any:
    """The derivative of `gelu`."""
    square = x * x
    if approximate == "none":
        density = numpy.exp(-0.5 * square)
        density *= x
        density *= 1 / math.sqrt(2 * math.pi)
        density += normal_cdf(x)
        return density
    t = numpy.tanh(_TANH * x * (1 + 0.044715 * square))
    return 0.5 * (1 + t) + (0.5 * _TANH) * x * (1 - t * t) * (1 + 0.134145 * square)
