"""Statistics and histograms for lists of arrays on the GPU, by the kernels of `summary.cu`: a few launches, one copy to the host.

Nothing waits for the device until a result is read.
"""

from __future__ import annotations

import contextlib
import functools
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
import numpy

from ...base.layout import axes_of
from . import launch, layouts, memory
from .arriving import Arriving

BINS, FEW = 64, 6  # of a histogram; elements at most of which the values are copied too
_BLOCK, _PIECE = 256, 16384  # as in summary.cu
NUMBERS = (
    "finite", "nan", "pos_inf", "neg_inf", "negative", "zero", "low", "high", "mean", "squares", "size", "large", "small",
)  # fmt: skip
RESULT = numpy.dtype([*((name, "f8") for name in NUMBERS), ("few", "u8", (2 * FEW,)), ("counts", "u8", (BINS,))])
_PART = 8 * len(NUMBERS)  # bytes


@functools.cache
def _kernel(name: str, T: str) -> launch.Kernel:
    return launch.Kernel(launch.source("summary.cu", T=T), name)


@functools.lru_cache(64)
def _pieces(device: int, stream: int, sizes: tuple) -> Any:
    """The pieces of arrays of these sizes: pairs of a row and a number; copied by the stream that uses them."""
    return memory.upload(numpy.array([(row, k) for row, size in enumerate(sizes) for k in range(-(-size // _PIECE))], numpy.int32))


@functools.lru_cache(4096)
def _layout(shape: tuple, strides: tuple, itemsize: int) -> bytes | None:
    """The `Layout` of `Row`, in the order of the indices; None if it has too many dimensions."""
    sizes, steps = layouts.merged(shape, [tuple([s // itemsize for s in strides])])
    return layouts.packed(sizes, steps, layouts.SMALL)[1] if len(sizes) <= layouts.MOST_DIMS else None


def _laid(x: Any) -> tuple[Any, bytes]:
    """An array with the same elements, and its layout; in the order of memory if that has no gaps and no values are copied."""
    axes = axes_of(x) if x.size > FEW else None
    x = x if axes is None else x.transpose(axes)
    layout = _layout(x.shape, x.strides, x.itemsize)
    if layout is None:
        x = cupy.ascontiguousarray(x)
        layout = _layout(x.shape, x.strides, x.itemsize)
        assert layout is not None
    return x, layout


def computed(x: Any) -> bool:
    """Whether the kernels read this array: one of a dtype that they have, on a GPU."""
    return isinstance(x, cupy.ndarray) and x.dtype.name in launch.TYPES


def begun(arrays: Sequence[Any], histogram: bool = False, ends: tuple[float, float] | None = None) -> Any:
    """Begin to compute the statistics of arrays on one GPU, on the current stream, and return them on their way to the host.

    `get()` of what is returned gives an array of the dtype RESULT, with an element for each of `arrays`. Histograms lie between the
    minimum and maximum of an array's finite elements, or between `ends`, and count all of those elements.
    """
    results = cupy.empty((len(arrays) * RESULT.itemsize // 8,), numpy.float64)
    lists: dict[numpy.dtype, list[int]] = {}
    for i, x in enumerate(arrays):
        lists.setdefault(x.dtype, []).append(i)
    for dtype, places in lists.items():
        T = "uint8_t" if dtype.kind == "b" else launch.TYPES[dtype.name]
        laid = [_laid(arrays[i]) for i in places]
        parts = [-(-x.size // _PIECE) for x, _ in laid]
        first = [0, *numpy.cumsum(parts).tolist()]
        low, high = ends or (math.nan, math.nan)
        table = b"".join(
            [struct.pack("=Qqqqdd", x.data.ptr, *row, low, high) + layout
             for (x, layout), *row in zip(laid, places, first, parts, strict=False)]
        )  # fmt: skip
        rows = memory.upload(numpy.frombuffer(table, numpy.uint8))
        pieces = (
            _pieces(launch.driver.device(), cupy.cuda.get_current_stream().ptr, tuple([x.size for x, _ in laid])) if first[-1] else None
        )
        found = cupy.empty((max(first[-1], 1) * _PART // 8,), numpy.float64)
        if pieces is not None:
            _kernel("moments", T)(first[-1], _BLOCK, rows.data.ptr, pieces.data.ptr, found.data.ptr)
        _kernel("merge", T)(len(places), _BLOCK, rows.data.ptr, found.data.ptr, results.data.ptr)
        if histogram and pieces is not None:
            _kernel("histogram", T)(first[-1], _BLOCK, rows.data.ptr, pieces.data.ptr, results.data.ptr)
    return Arriving(results, RESULT)


def values(result: Any, shape: tuple, dtype: Any) -> numpy.ndarray:
    """The elements of an array of at most FEW, from its result."""
    return numpy.frombuffer(result["few"].tobytes(), dtype, math.prod(shape)).reshape(shape)


def norm(result: Any) -> float:
    """The Euclidean norm of the finite elements, safe against overflow and underflow of the squares."""
    squares, finite, mean, large, small = [float(result[name]) for name in ("squares", "finite", "mean", "large", "small")]
    found = math.sqrt(squares + finite * mean * mean)
    return found or math.sqrt(small) * 2.0**-600 if math.isfinite(found) else math.sqrt(large) * 2.0**600


@functools.cache
def _side(device: int) -> Any:
    with cupy.cuda.Device(device):
        return cupy.cuda.Stream(non_blocking=True)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Submit to a stream of its own, after all that the current stream has been given: what follows there need not wait."""
    stream = _side(int(cupy.cuda.Device().id))
    stream.wait_event(cupy.cuda.get_current_stream().record(cupy.cuda.Event(disable_timing=True)))
    with stream:
        yield
