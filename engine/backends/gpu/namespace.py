"""The GPU array namespace: CuPy's functions under the names of the CPU namespace, plus those that ops need and CuPy lacks.

Kernels written against an array's own library (`reference`, `kernels_*`) are shared with the CPU; those specialized there for NumPy's
speed (`elementwise`, `reduction`, `special`) have plain versions here.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cupy
import cupyx
import numpy
from cupy import gcd, lcm, log1p, rint, where  # noqa: F401  the NumPy backend defines its own
from cupyx.scipy import special

from ...base.errors import Refused
from ..indexing import scatter_prod as _scatter_prod
from ..primitives import fill, of_kind
from ..reduction import _empty, count
from ..reference import _along, _axis, _through_host
from ..special import SCIPY, forwarded
from . import elementwise, memory, plain  # noqa: F401  the call path finds `elementwise` here

pi, inf, nan = math.pi, math.inf, math.nan


# -- devices -----------------------------------------------------------------------------------------------------------------


def device_count() -> int:
    """Return the number of GPUs; 0 without a driver."""
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def require_device() -> None:
    """Raise RuntimeError if no GPU can be used."""
    if not device_count():
        raise RuntimeError("No CUDA device can be used: CuPy is installed, but it finds no NVIDIA GPU or no driver for one.")
    memory.install()


def to_host(array: Any) -> numpy.ndarray:
    """Copy to CPU memory."""
    return cupy.asnumpy(array)


def to_device(array: Any, index: int | None = None) -> Any:
    """Copy to a GPU, by default the current one; RuntimeError for a GPU that does not exist."""
    if index is None:
        return cupy.array(array)
    n = device_count()
    if not 0 <= index < n:
        raise RuntimeError(f"CUDA error: invalid device ordinal {index}; there {'is' if n == 1 else 'are'} {n}")
    with cupy.cuda.Device(index):
        return cupy.array(array)


def current_device() -> int:
    """Return the index of the GPU on which this thread creates arrays."""
    return int(cupy.cuda.runtime.getDevice())


def device(index: int | None) -> Any:
    """Return a context in which a GPU is the current one of this thread. Raises RuntimeError if there is no such GPU."""
    n = device_count()
    if index is not None and not 0 <= index < n:
        raise RuntimeError(f"CUDA error: invalid device ordinal {index}; there {'is' if n == 1 else 'are'} {n}")
    return cupy.cuda.Device(index)


def device_name(index: int) -> str:
    """Return the name of a GPU, such as "NVIDIA H200"."""
    name = cupy.cuda.runtime.getDeviceProperties(index)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def synchronize(index: int) -> None:
    """Wait until a GPU has finished all its queued work."""
    cupy.cuda.Device(index).synchronize()


def mark() -> Any:
    """Record an event on the current GPU's stream, for measuring time."""
    event = cupy.cuda.Event()
    event.record()
    return event


def seconds_between(begin: Any, end: Any) -> float:
    """Return the GPU time in seconds between two events; waits for the second."""
    end.synchronize()
    return cupy.cuda.get_elapsed_time(begin, end) / 1e3


# -- elementwise -------------------------------------------------------------------------------------------------------------


def astype(x: Any, dtype: Any) -> Any:
    """Convert to a dtype, without copying if the array already has it; accepts Python numbers."""
    return cupy.asarray(x).astype(dtype, copy=False)


def copy(x: Any) -> Any:
    return cupy.array(x)


def power(x: Any, y: Any) -> Any:
    """`x ** y`; an integer to a negative integer power is 0 unless its reciprocal is an integer."""
    if getattr(x, "dtype", None) == numpy.dtype(bool):
        return cupy.logical_or(x, cupy.logical_not(y))
    if y.__class__ is float and y in (0.5, -0.5) and x.dtype.kind == "f":
        # as PyTorch does: square roots of -0 and -inf differ from their powers
        return cupy.sqrt(x) if y > 0 else 1 / cupy.sqrt(x)
    if getattr(y, "dtype", None) is not None and y.dtype.kind == "i":
        unit = cupy.where(cupy.equal(x, 1), 1, cupy.where(cupy.equal(x, -1), 1 - 2 * (y & 1), 0))
        return cupy.where(y < 0, unit.astype(y.dtype), x ** cupy.maximum(y, 0))
    return x**y


def lgamma(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function; infinite at 0 and the negative integers."""
    return cupy.where(x == -inf, inf, special.gammaln(x)).astype(x.dtype, copy=False)


def polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x)."""
    return special.digamma(x) if n == 0 else ((-1) ** (n + 1) * math.factorial(n) * special.zeta(cupy.asarray(n + 1.0), x)).astype(x.dtype)


globals().update({name: forwarded(name, cupy, lambda: special) for name in SCIPY})
globals().update(plain.bound(sys.modules[__name__]))


# -- reductions --------------------------------------------------------------------------------------------------------------


def _of_points(fn: Callable) -> Callable:
    """Decorate a reduction over `axis` to treat a 0-d array as one of length 1, as PyTorch does."""

    @functools.wraps(fn)
    def call(x: Any, axis: Any = None, keepdims: bool = False, *rest: Any, **more: Any) -> Any:
        if not x.ndim and axis is not None:
            for d in (axis,) if isinstance(axis, int) else axis:
                _axis(x, d)
            axis = None
        return fn(x, axis, keepdims, *rest, **more)

    return call


def spread_to(x: Any, shape: tuple) -> Any:
    return cupy.broadcast_to(x, shape)


@_of_points
def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    return cupy.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    total, n = sum(x, axis, keepdims), count(x, axis)
    return total / n if n else total * nan


def var(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Variance: the sum of squared distances from the mean, divided by the count minus `correction`."""
    d = x - mean(x, axis, True)
    total, n = sum((d * d.conj()).real, axis, keepdims), count(x, axis)
    return total / (n - correction) if n > 0 and n > correction else cupy.where(total > 0, inf, nan).astype(total.dtype)


@_of_points
def std(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Standard deviation: the square root of `var`."""
    return cupy.sqrt(var(x, axis, correction, keepdims))


@_of_points
def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.prod(x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, axis: Any = None) -> Any:
    return sum(x != 0, axis, dtype=numpy.int64)


def _some(x: Any, axis: Any, kind: type[Exception] = RuntimeError) -> None:
    """Raise the error for the maximum or minimum of no elements."""
    if not count(x, axis):
        raise _empty(x, axis, kind)


@_of_points
def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _some(x, axis)
    return cupy.max(x, axis=axis, keepdims=keepdims)


@_of_points
def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _some(x, axis)
    return cupy.min(x, axis=axis, keepdims=keepdims)


@_of_points
def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _some(x, axis, IndexError)
    return _kept(cupy.argmax(x, axis), x, axis, keepdims)


@_of_points
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


@_of_points
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.all(x, axis=axis, keepdims=keepdims).astype(x.dtype if x.dtype == numpy.uint8 else bool, copy=False)


@_of_points
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return cupy.any(x, axis=axis, keepdims=keepdims).astype(x.dtype if x.dtype == numpy.uint8 else bool, copy=False)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))), with the maximum subtracted first; -inf for no elements."""
    if not count(x, axis):
        return cupy.log(sum(x, axis, keepdims))
    top = max(x.real, axis, True)
    top = cupy.where(cupy.isfinite(top), top, 0)
    out = cupy.log(sum(cupy.exp(x - top), axis, True)) + top
    return out if keepdims else out.reshape(sum(x, axis).shape)


def vector_norm(x: Any, ord: float = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    """Vector norm (sum |x|^ord)^(1/ord); the largest or smallest |x| for inf and -inf, the count of non-zeros for 0.

    Refused for a negative or infinite `ord` of an empty tensor.
    """
    if (ord < 0 or ord == inf) and count(x, axis) == 0:
        raise Refused(f"cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    size = cupy.abs(x)
    if ord == 0:
        return sum(x != 0, axis, keepdims, size.dtype)
    if math.isinf(ord) or count(x, axis) == 1:
        return (max if ord > 0 else min)(size, axis, keepdims)
    return cupy.sqrt(sum(size * size, axis, keepdims)) if ord == 2 else sum(size**ord, axis, keepdims) ** (1 / ord)


# -- along one axis ----------------------------------------------------------------------------------------------------------


@_along
def cumsum(x: Any, axis: int) -> Any:
    return cupy.cumsum(x, axis)


@_along
def cumprod(x: Any, axis: int) -> Any:
    return cupy.cumprod(x, axis)


def _steps(n: int) -> Any:
    """1, 2, 4, ...: how far a scan looks back in each of its ceil(log2(n)) rounds."""
    return (1 << i for i in range((n - 1).bit_length())) if n else ()


def _split(axis: int, step: int) -> tuple:
    """Return the index of the elements that have one `step` before them, and the index of those earlier elements."""
    lead = (slice(None),) * axis
    return (*lead, slice(step, None)), (*lead, slice(None, -step))


@_along
def logcumsumexp(x: Any, axis: int) -> Any:
    """log(cumsum(exp(x))), by pairwise logaddexp and so without overflow."""
    out = x.copy()
    for step in _steps(x.shape[axis]):
        here, before = _split(axis, step)
        out[here] = plain.logaddexp(cupy, out[here], out[before])
    return out


@_along
def cumextreme(x: Any, axis: int, largest: bool) -> tuple:
    """Cumulative maximum (or minimum) and the last index where it occurred; a nan stays the extreme."""
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
    """exp(x) / sum(exp(x)) along one axis, with the maximum subtracted first."""
    if not x.size:
        return x.copy()
    e = cupy.exp(x - cupy.max(x, axis=axis, keepdims=True))
    return e / cupy.sum(e, axis=axis, keepdims=True)


@_along
def log_softmax(x: Any, axis: int) -> Any:
    """log(softmax(x)), computed from the logarithm of the sum rather than from the quotient."""
    if not x.size:
        return x.copy()
    shifted = x - cupy.max(x, axis=axis, keepdims=True)
    return shifted - cupy.log(cupy.sum(cupy.exp(shifted), axis=axis, keepdims=True))


# -- triangles: CuPy's `where`, on which its own are based, has no bfloat16 and returns float32 ------------------------------


def tril(x: Any, k: int = 0) -> Any:
    return cupy.tril(x, k).astype(x.dtype, copy=False)


def triu(x: Any, k: int = 0) -> Any:
    return cupy.triu(x, k).astype(x.dtype, copy=False)


# -- scattering --------------------------------------------------------------------------------------------------------------

scatter_prod = _through_host(_scatter_prod)  # CuPy has no `multiply.at`

fill(globals(), cupy)

# -- matrices ----------------------------------------------------------------------------------------------------------------


def _raising(fn: Callable) -> Callable:
    """Decorate a function of matrices to raise LinAlgError where cuSOLVER reports a failure, which CuPy ignores by default."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with cupyx.errstate(linalg="raise"):
            return fn(*args, **kwargs)

    return call


globals().update({name: _raising(globals()[name]) for name in (*of_kind("factor"), "quotients")})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # names set by `fill`, which type checkers do not see
