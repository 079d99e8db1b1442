"""The GPU's array namespace: CuPy's functions under the same names as the CPU's, and what ops need beyond them.

Kernels that are written against an array's own library (`reference`, `kernels_*`) are shared with the CPU; those that NumPy's speed
made special there (`elementwise`, `reduction`, `special`) are written plainly here.
"""

from __future__ import annotations

import math
from typing import Any

# isort: off
import cupy  # pyright: ignore[reportMissingImports]
import numpy
from cupy import (  # noqa: F401  # pyright: ignore[reportMissingImports]
    abs, add, arange, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, argsort, asarray, ascontiguousarray, bincount,
    bitwise_and, bitwise_or,
    bitwise_xor, ceil, concatenate, copysign, cos, cosh, divide, empty, empty_like, equal, exp, exp2, expm1, eye, floor, fmax, fmin,
    full, full_like, gcd, greater, greater_equal, heaviside, hypot, invert, isclose, isfinite, isinf, isnan, isneginf, isposinf, isreal,
    lcm, ldexp, left_shift, less, less_equal, log, log1p, log2, log10, logaddexp2, logical_and, logical_not, logical_or, logical_xor,
    maximum, minimum, nan_to_num, negative, nextafter, nonzero, not_equal, ones, ones_like, outer, real, reciprocal, repeat,
    right_shift, rint, roll, searchsorted, signbit, sin, sinh, sort, sqrt, square, squeeze, stack, subtract, take, take_along_axis, tan,
    tanh, tensordot, tile, tril, triu, trunc, unique, where, zeros, zeros_like,
)  # fmt: skip
from cupyx.scipy import special  # pyright: ignore[reportMissingImports]
from cupyx.scipy.special import digamma, erf, erfc, erfinv, i0, i1  # noqa: F401  # pyright: ignore[reportMissingImports]

from ..errors import Refused
from .elementwise import (  # noqa: F401  made of universal functions, which go to CuPy by themselves
    angle, clip, conj, floor_divide, fmod, frac, hardtanh, imag, lerp, log_sigmoid, logaddexp, logit, relu, remainder, round, sgn, sign,
    sinc, softplus, threshold, trunc_divide,
)  # fmt: skip
from .factors import *  # noqa: F403
from .indexing import *  # noqa: F403
from .kernels_conv import col2im, convolution, convolution_input, convolution_weight, im2col  # noqa: F401
from .kernels_loss import class_pick, class_spread, class_weights, log_sum_exp, softmax_minus  # noqa: F401
from .kernels_loss import ctc as _ctc
from .kernels_norm import normalize, normalize_input, normalize_weight  # noqa: F401
from .kernels_pool import (  # noqa: F401
    adaptive_max, avg_pool, avg_pool_back, flat_gather, flat_scatter, max_pool, resample, resample_back, tap_gather, tap_places,
    tap_scatter,
)  # fmt: skip
from .products import *  # noqa: F403
from .reduction import check_countable, count
from .reference import *  # noqa: F403
from .special import SCIPY
# isort: on

pi, inf, nan = math.pi, math.inf, math.nan


# -- devices -----------------------------------------------------------------------------------------------------------------


def device_count() -> int:
    """How many GPUs there are."""
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def require_device() -> None:
    """RuntimeError when CuPy is here and a GPU is not."""
    if not device_count():
        raise RuntimeError("No CUDA device can be used: CuPy is installed, but it finds no NVIDIA GPU or no driver for one.")


def to_host(array: Any) -> numpy.ndarray:
    """A copy in the CPU's memory."""
    return cupy.asnumpy(array)


def to_device(array: Any, index: int | None = None) -> Any:
    """A copy in a GPU's memory, by default the current one's. RuntimeError when there is no such GPU, or for bfloat16."""
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
        raise RuntimeError("bfloat16 tensors cannot be put on a GPU: CuPy has no such element type. Use float16 or float32 there.")
    if index is None:
        return cupy.array(array)
    n = device_count()
    if not 0 <= index < n:
        raise RuntimeError(f"CUDA error: invalid device ordinal {index}; there {'is' if n == 1 else 'are'} {n}")
    with cupy.cuda.Device(index):
        return cupy.array(array)


# -- elementwise -------------------------------------------------------------------------------------------------------------


def astype(x: Any, dtype: Any) -> Any:
    """The array in another dtype; itself when it has that dtype already. Works on numbers too."""
    return cupy.asarray(x).astype(dtype, copy=False)


def copy(x: Any) -> Any:
    return cupy.array(x)


def power(x: Any, y: Any) -> Any:
    """`x ** y`; an integer to a negative integer power is 0, unless its reciprocal is an integer."""
    if getattr(x, "dtype", None) == numpy.dtype(bool):
        return cupy.logical_or(x, cupy.logical_not(y))
    if getattr(y, "dtype", None) is not None and y.dtype.kind == "i":
        unit = cupy.where(cupy.equal(x, 1), 1, cupy.where(cupy.equal(x, -1), 1 - 2 * (y & 1), 0))
        return cupy.where(y < 0, unit.astype(y.dtype), x ** cupy.maximum(y, 0))
    return x**y


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); exp's overflow to infinity is the right limit here."""
    return 1 / (1 + cupy.exp(-x))


def silu(x: Any) -> Any:
    """x / (1 + exp(-x)); the limit 0 at -inf."""
    return x / (1 + cupy.exp(-x))


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1 + erf(x * math.sqrt(0.5)))


_TANH = math.sqrt(2 / math.pi)


def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the normal distribution function of x; "tanh" approximates that by a tanh."""
    if approximate not in ("none", "tanh"):
        raise Refused("approximate argument must be either none or tanh.")
    return x * (_normal_cdf(x) if approximate == "none" else 0.5 * (1 + cupy.tanh(_TANH * x * (1 + 0.044715 * x * x))))


def gelu_slope(x: Any, approximate: str = "none") -> Any:
    """The derivative of gelu."""
    if approximate == "none":
        return _normal_cdf(x) + x * cupy.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    t = cupy.tanh(_TANH * x * (1 + 0.044715 * x * x))
    return 0.5 * (1 + t) + (0.5 * _TANH) * x * (1 - t * t) * (1 + 0.134145 * x * x)


def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and the negative integers."""
    return cupy.where(x == -inf, inf, special.gammaln(x)).astype(x.dtype, copy=False)


def polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x)."""
    return digamma(x) if n == 0 else ((-1) ** (n + 1) * math.factorial(n) * special.zeta(cupy.asarray(n + 1.0), x)).astype(x.dtype)


def xlogy(x: Any, y: Any) -> Any:
    """x log(y), and 0 where x is 0 and y is not nan."""
    d = (x if hasattr(x, "dtype") else y).dtype
    return special.xlogy(cupy.asarray(x, d), cupy.asarray(y, d))


def _named(name: str) -> Any:
    def call(*xs: Any) -> Any:
        d = next(x.dtype for x in xs if hasattr(x, "dtype"))
        return cupy.asarray(getattr(special, name)(*[cupy.asarray(x, d) for x in xs])).astype(d, copy=False)

    call.__name__ = call.__qualname__ = name
    return call


globals().update({name: _named(theirs) for name, theirs in SCIPY.items()})


# -- reductions --------------------------------------------------------------------------------------------------------------


def spread_to(x: Any, shape: tuple) -> Any:
    return cupy.broadcast_to(x, shape)


def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    return cupy.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    total, n = sum(x, axis, keepdims), count(x, axis)
    return total / n if n else total * nan


def var(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """The mean squared distance from the mean, with the count reduced by `correction`."""
    d = x - mean(x, axis, True)
    total, n = sum((d * d.conj()).real, axis, keepdims), count(x, axis) - correction
    return total / n if n > 0 else cupy.where(total > 0, inf, nan).astype(total.dtype)


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.prod(x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, axis: Any = None) -> Any:
    return cupy.sum(x != 0, axis=axis, dtype=numpy.int64)


def _some(x: Any, axis: Any, kind: type[Exception] = RuntimeError) -> None:
    """Refuse the extreme of nothing."""
    if axis is None and not x.size:
        raise Refused(
            "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", kind
        )
    for a in () if axis is None or not x.ndim else (axis,) if isinstance(axis, int) else axis:
        if not x.shape[a]:
            raise Refused(f"Expected reduction dim {a % x.ndim} to have non-zero size.", IndexError)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _some(x, axis)
    return cupy.max(x, axis=axis, keepdims=keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _some(x, axis)
    return cupy.min(x, axis=axis, keepdims=keepdims)


def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _some(x, axis, IndexError)
    return _kept(cupy.argmax(x, axis), x, axis, keepdims)


def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _some(x, axis, IndexError)
    return _kept(cupy.argmin(x, axis), x, axis, keepdims)


def _kept(found: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    shape = (
        found.shape
        if not keepdims
        else (1,) * x.ndim
        if axis is None
        else tuple(1 if d == axis % x.ndim else n for d, n in enumerate(x.shape))
    )
    return found.reshape(shape).astype(numpy.int64, copy=False)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.all(x, axis=axis, keepdims=keepdims).astype(x.dtype if x.dtype == numpy.uint8 else bool, copy=False)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.any(x, axis=axis, keepdims=keepdims).astype(x.dtype if x.dtype == numpy.uint8 else bool, copy=False)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))), with the maximum taken out first; -inf of nothing."""
    if not count(x, axis):
        return cupy.log(sum(x, axis, keepdims))
    top = cupy.max(x.real, axis=axis, keepdims=True)
    top = cupy.where(cupy.isfinite(top), top, 0)
    out = cupy.log(sum(cupy.exp(x - top), axis, True)) + top
    return out if keepdims else out.reshape(sum(x, axis).shape)


def vector_norm(x: Any, ord: float = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    """(sum |x|^ord)^(1/ord); the largest or smallest |x| for inf and -inf, the count of non-zeros for 0."""
    if (ord < 0 or ord == inf) and count(x, axis) == 0:
        raise Refused(f"cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    size = cupy.abs(x)
    if ord == 0:
        return sum(x != 0, axis, keepdims, size.dtype)
    if math.isinf(ord):
        return (max if ord > 0 else min)(size, axis, keepdims)
    return cupy.sqrt(sum(size * size, axis, keepdims)) if ord == 2 else sum(size**ord, axis, keepdims) ** (1 / ord)


# -- along one axis ----------------------------------------------------------------------------------------------------------


def _along(fn: Any) -> Any:
    """Let `fn(x, axis, ...)` take a 0-d array too, as one of length 1; IndexError's cause for an axis that does not exist."""

    def call(x: Any, axis: int, *args: Any) -> Any:
        n = x.ndim
        if not -(n or 1) <= axis < (n or 1):
            raise numpy.exceptions.AxisError(axis, n)
        if n:
            return fn(x, axis % n, *args)
        out = fn(x.reshape(1), 0, *args)
        return tuple(o.reshape(()) for o in out) if isinstance(out, tuple) else out.reshape(())

    call.__name__, call.__doc__ = fn.__name__, fn.__doc__
    return call


@_along
def cumsum(x: Any, axis: int) -> Any:
    return cupy.cumsum(x, axis)


@_along
def cumprod(x: Any, axis: int) -> Any:
    return cupy.cumprod(x, axis)


def _steps(n: int) -> Any:
    """1, 2, 4, ...: how far a scan looks back in each of its log2(n) rounds."""
    return (1 << i for i in range((n - 1).bit_length())) if n else ()


def _split(axis: int, step: int) -> tuple:
    """The places that have a neighbour `step` before them, and these neighbours."""
    lead = (slice(None),) * axis
    return (*lead, slice(step, None)), (*lead, slice(None, -step))


@_along
def logcumsumexp(x: Any, axis: int) -> Any:
    """log(cumsum(exp(x))), pairwise and so without overflow."""
    out = x.copy()
    for step in _steps(x.shape[axis]):
        here, before = _split(axis, step)
        out[here] = logaddexp(out[here], out[before])
    return out


@_along
def cumextreme(x: Any, axis: int, largest: bool) -> tuple:
    """The largest (or smallest) so far, and where it stood last; a nan stays the extreme."""
    values = x.copy()
    places = cupy.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(x.ndim)]) + cupy.zeros(x.shape, numpy.int64)
    for step in _steps(x.shape[axis]):
        here, before = _split(axis, step)
        a, b = values[here], values[before]
        older = ((b > a) if largest else (b < a)) | ((b != b) & (a == a))
        values[here], places[here] = cupy.where(older, b, a), cupy.where(older, places[before], places[here])
    return values, places


@_along
def softmax(x: Any, axis: int) -> Any:
    """exp(x) / sum(exp(x)) along one axis, with the maximum taken out first."""
    if not x.size:
        return x.copy()
    e = cupy.exp(x - cupy.max(x, axis=axis, keepdims=True))
    return e / cupy.sum(e, axis=axis, keepdims=True)


@_along
def log_softmax(x: Any, axis: int) -> Any:
    """log(softmax(x)), from the sum's logarithm and not from the quotient."""
    if not x.size:
        return x.copy()
    shifted = x - cupy.max(x, axis=axis, keepdims=True)
    return shifted - cupy.log(cupy.sum(cupy.exp(shifted), axis=axis, keepdims=True))


def ranked(x: Any, positions: Any, axis: int) -> tuple:
    """The elements at the given positions of the sorted axis, nans last, and where they stood; "median" and "nanmedian" too."""
    return _ranked(x, axis, positions)


@_along
def _ranked(x: Any, axis: int, positions: Any) -> tuple:
    _some(x, axis)
    n, order = x.shape[axis], cupy.argsort(x, axis=axis)
    if isinstance(positions, str):
        nans = cupy.sum(x != x, axis=axis, keepdims=True)
        at = (n - nans - 1) // 2 if positions == "nanmedian" else cupy.where(nans > 0, n - nans, (n - 1) // 2)
        at = cupy.maximum(at, 0)
    else:
        at = cupy.asarray(positions).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    at = cupy.broadcast_to(at, tuple(at.shape[d] if d == axis else s for d, s in enumerate(x.shape)))
    indices = cupy.take_along_axis(order, at, axis)
    return cupy.take_along_axis(x, indices, axis), indices


def median_of_all(x: Any, skip_nan: bool = False) -> Any:
    """The lower median of all elements, nan of none; with `skip_nan` of those that are not nan."""
    if not x.size:
        return cupy.full((), nan, x.dtype)
    return ranked(x.reshape(-1), "nanmedian" if skip_nan else "median", 0)[0].reshape(())


@_along
def mode(x: Any, axis: int) -> tuple:
    """The most frequent value along an axis (the smallest of several), and where it stands last; the axis stays, with length 1."""
    _some(x, axis)
    order = cupy.argsort(x, axis=axis)
    ranks = cupy.moveaxis(cupy.take_along_axis(x, order, axis), axis, -1)
    new = cupy.ones(ranks.shape, bool)
    new[..., 1:] = ranks[..., 1:] != ranks[..., :-1]
    places = cupy.arange(ranks.shape[-1])
    run = places - cumextreme(cupy.where(new, places, 0), -1, True)[0]
    best = cupy.expand_dims(run.argmax(-1), axis)
    indices = cupy.take_along_axis(order, best, axis)
    return cupy.take_along_axis(x, indices, axis), indices


def add_along_axis(x: Any, indices: Any, size: int, axis: int) -> Any:
    """Zeros with `size` places along `axis`, and `x` added at `indices` there: the transpose of taking along an axis."""
    if not indices.ndim:
        return cupy.array(x)
    axis %= indices.ndim
    out = cupy.zeros(indices.shape[:axis] + (size,) + indices.shape[axis + 1 :], x.dtype)
    grid = [cupy.arange(n).reshape([-1 if d == i else 1 for i in range(indices.ndim)]) for d, n in enumerate(indices.shape)]
    grid[axis] = indices
    cupy.add.at(out, tuple(grid), cupy.broadcast_to(x, indices.shape))
    return out


# -- counting, sequences -----------------------------------------------------------------------------------------------------


def count_integers(x: Any, weights: Any = None, least: int = 0) -> Any:
    """How often each of 0, 1, 2, ... occurs, or the sum of its weights."""
    check_countable(x, weights)
    out = cupy.bincount(x, weights, least)
    return out.astype(weights.dtype, copy=False) if weights is not None and weights.dtype == numpy.float32 else out


def histogram(x: Any, bins: int, low: float, high: float) -> Any:
    """How many elements fall into each of `bins` equal bins; the last one is closed. Equal bounds: those of the data."""
    from .reduction import histogram as plain

    return cupy.asarray(plain(to_host(x), bins, low, high))


def search(ordered: Any, values: Any, right: bool = False) -> Any:
    """Where `values` would be inserted into the ordered last axis: before equal elements, or after them with `right`."""
    from .reduction import search as plain

    return cupy.asarray(plain(to_host(ordered), to_host(values), right))


def ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> tuple:
    """Connectionist temporal classification, computed on the CPU: its recursion over time has nothing for a GPU to do at once."""
    found = _ctc(*map(to_host, (log_probs, targets, input_lengths, target_lengths)), blank)
    return tuple(map(cupy.asarray, found))
