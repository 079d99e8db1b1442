"""The GPU array namespace: CuPy's functions under the names of the CPU namespace, plus those that ops need and CuPy lacks.

Kernels written against an array's own library (`reference`, `kernels_*`) are shared with the CPU; those specialized there for NumPy's
speed (`elementwise`, `reduction`, `special`) have plain versions here.
"""

from __future__ import annotations

import functools
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cupy
import cupyx
import numpy
from cupy import from_dlpack, gcd, lcm, log1p, rint, where  # noqa: F401  the NumPy backend defines its own
from cupyx.scipy import special

from ...base.layout import axes_of, inverse
from ..kernels_rnn import gru_back_plainly, gru_plainly, rnn_back_plainly, rnn_plainly
from ..primitives import fill, of_kind
from ..reference import _along
from ..special import SCIPY, forwarded
from . import arriving, elementwise, faults, memory, plain, summary, waiting  # noqa: F401  the call path and the workbench find these here
from .attention import attention, attention_back, attention_draws, attention_kept, whole_attention  # noqa: F401
from .classes import class_pick, class_spread, class_weights  # noqa: F401
from .dnn import convolution, convolution_input, convolution_weight  # noqa: F401
from .index import (  # noqa: F401
    add_along_axis,
    add_rows,
    flat_scatter,
    gather,
    index_add,
    index_copy,
    index_select,
    masked_fill,
    put,
    put_zeros,
    read_rows,
    rows,
    scatter,
    scatter_add,
    scatter_extreme,
    scatter_prod,
    take_along_axis,
)
from .lstm import lstm, lstm_back  # noqa: F401
from .matmul import contract, linear, matmul  # noqa: F401
from .pool import *  # noqa: F403
from .reduce import *  # noqa: F403
from .rows import *  # noqa: F403

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
    waiting.install()


def to_host(array: Any) -> numpy.ndarray:
    """Copy to CPU memory, in the same memory order. Raises IndexError if a kernel before found an index out of range."""
    axes = axes_of(array)
    return cupy.asnumpy(array) if axes is None else cupy.asnumpy(array.transpose(axes)).transpose(inverse(axes))


@waiting.waits("copy", hidden=False, wanted=lambda array, index=None: isinstance(array, numpy.ndarray))
def to_device(array: Any, index: int | None = None) -> Any:
    """Copy to a GPU, by default the current one, in the same memory order. Raises RuntimeError for a GPU that does not exist."""
    if index is not None:
        n = device_count()
        if not 0 <= index < n:
            raise RuntimeError(f"CUDA error: invalid device ordinal {index}; there {'is' if n == 1 else 'are'} {n}")
        with cupy.cuda.Device(index):
            return to_device(array)
    axes = axes_of(array)
    return cupy.array(array, order="C") if axes is None else cupy.array(array.transpose(axes), order="C").transpose(inverse(axes))


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


@waiting.waits("synchronize", hidden=False)
def synchronize(device: int) -> None:
    """Wait until a GPU has finished all its queued work. Raises IndexError if a kernel found an index out of range."""
    cupy.cuda.Device(device).synchronize()


class Mark:
    """A point in the time of a GPU's stream. Its event is used again once the mark is gone."""

    __slots__ = ("device", "event", "_spare")

    def __init__(self) -> None:
        self.device = current_device()
        self._spare = _spare_events[self.device]
        try:
            self.event = self._spare.pop()
        except IndexError:
            self.event = cupy.cuda.Event()
        self.event.record()

    def __del__(self) -> None:
        self._spare.append(self.event)


_spare_events: defaultdict[int, list[Any]] = defaultdict(list)  # by GPU: creating an event takes longer than recording it
mark = Mark


def seconds_between(begin: Mark, end: Mark) -> float:
    """Return the GPU time in seconds between two marks of one GPU; waits for the second if it has not been reached."""
    if not end.event.done:
        end.event.synchronize()
    return cupy.cuda.get_elapsed_time(begin.event, end.event) / 1e3


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


def spread_to(x: Any, shape: tuple) -> Any:
    return cupy.broadcast_to(x, shape)


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


# -- triangles ---------------------------------------------------------------------------------------------------------------

# CuPy's are based on its `where`, which has no bfloat16 and returns float32


def tril(x: Any, k: int = 0) -> Any:
    return cupy.tril(x, k).astype(x.dtype, copy=False)


def triu(x: Any, k: int = 0) -> Any:
    return cupy.triu(x, k).astype(x.dtype, copy=False)


# -- recurrence --------------------------------------------------------------------------------------------------------------


rnn, rnn_back, gru, gru_back = (
    functools.partial(f, sys.modules[__name__]) for f in (rnn_plainly, rnn_back_plainly, gru_plainly, gru_back_plainly)
)

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
