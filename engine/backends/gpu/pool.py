"""Pooling by the kernels of `pool.cu`, under the names of the array interface, which `kernels_pool` describes.

Arrays can be in any memory order; results have that of the first argument, so that channels stay last.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import cupy
import numpy

from ...base import dtypes
from ...base.layout import axes_of, blank
from .. import kernels_pool
from ..kernels_pool import _at, _tap_type
from ..windows import Windows, place_pool
from . import launch
from .layouts import SMALL

__all__ = ["avg_pool", "avg_pool_back", "max_pool", "tap_gather", "tap_scatter"]

_BLOCK = 256
_FLOATS = frozenset(d.numpy for d in dtypes.ALL if d.is_floating_point)
_ELEMENTS = _FLOATS | {d.numpy for d in dtypes.ALL if d.rank == dtypes.INT}


@functools.cache
def _kernel(name: str, dtype: numpy.dtype, taps: numpy.dtype, wide: bool) -> launch.Kernel:
    types = {"T": launch.TYPES[dtype.name], "K": launch.TYPES[taps.name], "I": "int64_t" if wide else "uint32_t"}
    return launch.Kernel(launch.source("pool.cu", **types), name)


@functools.lru_cache(1024)
def _packed(at: tuple, channels: int, count: int, reach: int, last: bool, *strides: tuple) -> tuple[bool, bytes]:
    """Whether offsets take 64 bits, and the `Pool` of pool.cu."""
    size, kernel, stride, pads, dilation, out = at
    wide, more = reach >= SMALL, 3 - len(size)
    spatial = [
        (*(fill,) * more, *values) for values, fill in zip((size, out, kernel, stride, dilation, pads), (1, 1, 1, 1, 1, 0), strict=True)
    ]
    numbers = [count, channels, *[s for own in strides for s in own]]
    return wide, struct.pack(f"={len(numbers)}{'q' if wide else 'I'}19i{'4x' if wide else ''}", *numbers, *sum(spatial, ()), last)


def _five(x: Any, n: int) -> Any:
    """The array as batches, channels and three dimensions of positions."""
    if x.ndim > n + 2:
        x = cupy.ascontiguousarray(x).reshape(-1, *x.shape[-n - 1 :])
    lead = x.ndim - n
    return x[(*(None,) * (2 - lead), *(slice(None),) * lead, *(None,) * (3 - n))]


def _launched(name: str, at: Windows, over: Any, x: Any, y: Any, z: Any, order: str, *more: Any) -> None:
    """Launch a kernel with a thread for each element of `over`; `order` are the names of the arrays that it takes."""
    arrays = [_five(a, len(at.size)) for a in (x, y, z)]
    strides = [tuple([s // a.itemsize if m > 1 else 0 for s, m in zip(a.strides, a.shape, strict=True)]) for a in arrays]
    reach = max(over.size, *(sum(s * (m - 1) for s, m in zip(own, a.shape, strict=True)) for own, a in zip(strides, arrays, strict=True)))
    channels, last = arrays[0].shape[1], strides[0][1] == 1 and strides[0][4] > 1
    key = at.size, at.kernel, at.stride, tuple([low for low, _ in at.pads]), at.dilation, at.out
    wide, packed = _packed(key, channels, over.size, reach, last, *strides)
    if over.size:
        taps = z.dtype if z is not y else numpy.dtype("uint8")
        pointers = [arrays["xyz".index(name)].data.ptr for name in order]
        _kernel(name, x.dtype, taps, wide)(-(-over.size // _BLOCK), _BLOCK, packed, *pointers, *more)


def _like(x: Any, n: int, shape: tuple, dtype: Any) -> Any:
    """An array in the memory order of x, which has `n` dimensions of positions."""
    axes = axes_of(x) if x.ndim <= n + 2 else None
    return cupy.ndarray(shape, dtype) if axes is None else blank(cupy.ndarray, shape, dtype, axes)


def max_pool(x: Any, n: int, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> tuple:
    """Return the maximum of each window and its tap."""
    at = _at(x, n, kernel, stride, padding, dilation, ceil_mode)
    if x.dtype not in _ELEMENTS:
        return kernels_pool.max_pool(x, n, kernel, stride, padding, dilation, ceil_mode)
    shape = (*x.shape[:-n], *at.out)
    out, taps = _like(x, n, shape, x.dtype), _like(x, n, shape, numpy.dtype(_tap_type(at.kernel)))
    _launched("max_pool", at, out, x, out, taps, "xyz")
    return out, taps


def tap_scatter(
    g: Any, taps: Any, size: tuple, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Scatter each element of `g` to its window's tap, in zeros of shape `size`."""
    if g.dtype not in _ELEMENTS:
        return kernels_pool.tap_scatter(g, taps, size, kernel, stride, padding, dilation, ceil_mode)
    at, out = place_pool(size[-len(kernel) :], kernel, stride, padding, dilation, ceil_mode), _like(g, len(kernel), tuple(size), g.dtype)
    _launched("tap_scatter", at, out, out, g, taps, "yzx")
    return out


def tap_gather(x: Any, taps: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    """Return the element of `x` at each window's tap."""
    if x.dtype not in _ELEMENTS:
        return kernels_pool.tap_gather(x, taps, kernel, stride, padding, dilation, ceil_mode)
    at, out = (
        place_pool(x.shape[-len(kernel) :], kernel, stride, padding, dilation, ceil_mode),
        _like(taps, len(kernel), taps.shape, x.dtype),
    )
    _launched("tap_gather", at, out, x, out, taps, "xzy")
    return out


def avg_pool(
    x: Any, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include_pad: bool = True, divisor: Any = None
) -> Any:
    """Return the mean of each window."""
    if x.dtype not in _FLOATS:
        return kernels_pool.avg_pool(x, kernel, stride, padding, ceil_mode, include_pad, divisor)
    n = len(kernel)
    at = place_pool(x.shape[-n:], kernel, stride, padding, 1, ceil_mode)
    out = _like(x, n, (*x.shape[:-n], *at.out), x.dtype)
    _launched("avg_pool", at, out, x, out, out, "xy", divisor or 0, include_pad)
    return out


def avg_pool_back(
    g: Any, size: tuple, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include_pad: bool = True,
    divisor: Any = None,
) -> Any:  # fmt: skip
    """The transpose of `avg_pool`: spread each element of `g` over its window."""
    if g.dtype not in _FLOATS:
        return kernels_pool.avg_pool_back(g, size, kernel, stride, padding, ceil_mode, include_pad, divisor)
    at, out = place_pool(size[-len(kernel) :], kernel, stride, padding, 1, ceil_mode), _like(g, len(kernel), tuple(size), g.dtype)
    _launched("avg_pool_back", at, out, out, g, g, "yx", divisor or 0, include_pad)
    return out
