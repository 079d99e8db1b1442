"""Reading and writing at indices by the kernels of `index.cu`, under the names of the array interface.

Nothing waits for the device: an index out of range is noted by the kernel, its element is read as 0 or not written, and the error is
raised at the next synchronization (see `faults`). Several elements for one place are combined in the order of the index, so results are
reproducible.
"""

from __future__ import annotations

import functools
import math
import struct
from typing import Any

import cupy
import numpy

from .. import indexing
from . import launch, layouts
from .faults import NO_INDEX, bounds, look

_BLOCK, _PIECE = 256, 64  # as in index.cu
_MOVED = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t", 16: "complex128_t"}  # what is moved for an element of this size


@functools.cache
def _kernel(name: str, T: str, J: str = "int64_t", I: str = "int64_t", R: str = "Sum") -> launch.Kernel:  # noqa: E741  the text's names
    return launch.Kernel(launch.source("index.cu", T=T, J=J, I=I, R=f"struct {R}"), name)


def _blocks(threads: int) -> int:
    return -(-threads // _BLOCK)


def _layout(shape: tuple, *strides: tuple, reach: int = 0) -> tuple[str, bytes]:
    """Return the offset type and the bytes of a `Layout`. `reach` is a number that the offset type must hold as well."""
    wide, layout = layouts.packed(*layouts.merged(shape, strides), reach)
    return "int64_t" if wide else "uint32_t", layout


def _steps(x: Any, shape: tuple, axis: int | None = None) -> tuple:
    """The strides of an array in elements, as if it were broadcast to a shape; 0 along `axis`."""
    steps = tuple(0 if d == axis or n == 1 else s // x.itemsize for d, (n, s) in enumerate(zip(x.shape, x.strides, strict=True)))
    return (0,) * (len(shape) - x.ndim) + steps


def _row_major(shape: tuple, axis: int) -> tuple[tuple, int]:
    """The strides of a row-major array, with 0 along `axis`, and the one along `axis`."""
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    return tuple(0 if d == axis else s for d, s in enumerate(strides)), strides[axis]


def _integers(index: Any) -> Any:
    return index if index.dtype in (numpy.int64, numpy.int32) else index.astype(numpy.int64)


def _whole(x: Any) -> Any:
    return x if x.flags.c_contiguous else cupy.ascontiguousarray(x)


# -- reading -----------------------------------------------------------------------------------------------------------------


def _gathered(x: Any, axis: int, index: Any, shape: tuple, op: str, wrap: bool = False, skip: int = NO_INDEX) -> Any:
    out = cupy.empty(shape, x.dtype)
    if out.size:
        offset, at = _layout(shape, _steps(x, shape, axis), _steps(index, shape))
        stride = x.strides[axis] // x.itemsize
        run = _kernel("gather", _MOVED[x.itemsize], launch.TYPES[index.dtype.name], offset)
        run(_blocks(out.size), _BLOCK, x.data.ptr, index.data.ptr, out.data.ptr, stride, at, bounds(op, x.shape[axis], wrap, skip))
    return out


def gather(x: Any, dim: int, index: Any) -> Any:
    """`out[i, j] = x[i, index[i, j]]` for dim 1, and so on."""
    dim = indexing.fitting_along(x, dim, index, "gather")
    if not index.size:
        return cupy.empty(index.shape, x.dtype)
    shape = index.shape or (1,)
    return _gathered(x.reshape(x.shape or (1,)), dim, index.reshape(shape), shape, "gather").reshape(index.shape)


def take_along_axis(x: Any, index: Any, axis: int = -1) -> Any:
    """`gather` with negative indices, in which the other dimensions are broadcast."""
    axis %= x.ndim
    others = numpy.broadcast_shapes(*[(*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, index)])
    shape = (*others[:axis], index.shape[axis], *others[axis + 1 :])
    return _gathered(x, axis, _integers(index), shape, "take_along_axis", True)


def _taken(x: Any, dim: int, index: Any, op: str, wrap: bool = False, skip: int = NO_INDEX) -> Any:
    """The slices of `x` at a flat index; zeros for the index `skip`. They are moved in units of up to 16 bytes."""
    index, shape = _integers(index), (*x.shape[:dim], index.size, *x.shape[dim + 1 :])
    if not x.flags.c_contiguous:
        return _gathered(x, dim, index.reshape((-1,) + (1,) * (x.ndim - dim - 1)), shape, op, wrap, skip)
    index, out = _whole(index), cupy.empty(shape, x.dtype)
    if out.size:
        width = math.prod(x.shape[dim + 1 :]) * x.itemsize  # of a slice, in bytes
        unit = math.gcd(16, width, x.data.ptr, out.data.ptr)
        size = out.nbytes // unit
        offset = "uint32_t" if size < layouts.SMALL else "int64_t"
        run = _kernel("take", _MOVED[unit], launch.TYPES[index.dtype.name], offset)
        within = bounds(op, x.shape[dim], wrap, skip)
        run(_blocks(size), _BLOCK, x.data.ptr, index.data.ptr, out.data.ptr, size, index.size, width // unit, within)
    return out


def index_select(x: Any, dim: int, index: Any) -> Any:
    """Return the slices that a 1-d index selects along a dimension."""
    dim = indexing.fitting_slices(x, dim, index, "index_select")
    out = _taken(x.reshape(x.shape or (1,)), dim, index.reshape(-1), "index_select")
    return out if x.ndim else out.reshape(())


def rows(weight: Any, index: Any) -> Any:
    """Return the rows of a matrix at `index`; ValueError unless `weight` is 2-d."""
    if weight.ndim != 2:
        raise ValueError("'weight' must be 2-D")
    return _taken(weight, 0, index.reshape(-1), "embedding").reshape(*index.shape, weight.shape[1])


def read_rows(weight: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    """The transpose of `add_rows`."""
    skip = NO_INDEX if padding_idx is None else padding_idx % count
    out = _taken(weight, 0, index.reshape(-1), "embedding", True, skip).reshape(*index.shape, *weight.shape[1:])
    if scale:
        times = add_rows(cupy.ones((index.size, 1), out.dtype), index, count)  # how often each index occurs
        out /= _taken(times, 0, index.reshape(-1), "embedding", True).reshape(*index.shape, 1)
    return out


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """Return a copy of `x`, broadcast with `mask`, with a number or 0-d array written where `mask` is True."""
    indexing.fitting_mask(x, mask, value)
    value = indexing.fill_value(value, x.dtype)
    shape = numpy.broadcast_shapes(x.shape, mask.shape)
    out = cupy.empty(shape, x.dtype)
    if out.size:
        dense = x.shape == mask.shape and x.flags.c_contiguous and mask.flags.c_contiguous
        dense = dense and not (x.data.ptr | out.data.ptr) % (4 * x.itemsize) and not mask.data.ptr % 4
        x, mask = cupy.broadcast_to(x, shape), cupy.broadcast_to(mask, shape)
        offset, at = _layout(shape, _steps(x, shape), _steps(mask, shape))
        run, given = _kernel("masked_fill", _MOVED[x.itemsize], I=offset), _given(value, x.dtype)
        run(_blocks(-(-out.size // 4) if dense else out.size), _BLOCK, x.data.ptr, mask.data.ptr, *given, out.data.ptr, dense, at)
    return out


def _given(value: Any, dtype: Any) -> tuple[int, bytes]:
    """The address of an array, or 0 and the bytes of a number."""
    return (value.data.ptr, bytes(dtype.itemsize)) if isinstance(value, cupy.ndarray) else (0, numpy.asarray(value).tobytes())


# -- writing -----------------------------------------------------------------------------------------------------------------


def _keys(index: Any, shape: tuple, axis: int, op: str, wrap: bool = False, skip: int = NO_INDEX) -> Any:
    """Return where the element for each index goes in a row-major array of a shape: a flat array of offsets."""
    index, (strides, stride) = _integers(index), _row_major(shape, axis)
    offset, at = _layout(index.shape, _steps(index, index.shape), strides, reach=math.prod(shape))
    keys = cupy.empty((index.size,), numpy.uint32 if offset == "uint32_t" else numpy.int64)
    run = _kernel("keys", "uint8_t", launch.TYPES[index.dtype.name], offset)
    run(_blocks(index.size), _BLOCK, index.data.ptr, keys.data.ptr, stride, at, bounds(op, shape[axis], wrap, skip))
    return keys


def _combine(out: Any, keys: Any, value: Any, how: str, outer: int = 1, length: int = 1, mean: bool = False) -> None:
    """Combine `value` (outer, keys, length) into `out` (outer, places, length) at the keys: add, multiply, or keep an extreme."""
    value, count = _whole(value.astype(out.dtype, copy=False)), keys.size
    order, pieces = cupy.argsort(keys), -(-count // _PIECE)
    parts = cupy.empty((outer, pieces, 2, length), numpy.float32 if out.dtype.itemsize == 2 and out.dtype.kind not in "iu" else out.dtype)
    whole = length % 4 == 0 and not (value.data.ptr | out.data.ptr) % (4 * out.itemsize)
    blocks = _blocks(outer * pieces * (length // 4 if whole else length))
    runs = struct.pack("=QQqqq?7x", keys.data.ptr, order.data.ptr, count, out.size // (outer * length), length, mean)
    run, join = (_kernel(name, launch.TYPES[out.dtype.name], I=launch.TYPES[keys.dtype.name], R=how) for name in ("combine", "join"))
    run(blocks, _BLOCK, value.data.ptr, out.data.ptr, parts.data.ptr, outer, whole, runs)
    if pieces > 1:
        join(blocks, _BLOCK, parts.data.ptr, out.data.ptr, outer, whole, runs)


def _put(out: Any, keys: Any, value: Any, once: bool = False) -> None:
    """Write an array, a 0-d array or a number at the keys: of several elements for one place the last, unless none occurs twice."""
    single = not getattr(value, "ndim", 0)
    value = indexing.fill_value(value, out.dtype) if single else _whole(value.astype(out.dtype, copy=False))
    at, number = _given(value, out.dtype)
    offset, moved, claims = launch.TYPES[keys.dtype.name], _MOVED[out.itemsize], None
    if not (single or once):
        claims = cupy.zeros((out.size,), keys.dtype)
        _kernel("claim", moved, I=offset)(_blocks(keys.size), _BLOCK, keys.data.ptr, claims.data.ptr, keys.size)
    claimed = 0 if claims is None else claims.data.ptr
    run = _kernel("put", moved, I=offset)
    run(_blocks(keys.size), _BLOCK, at, int(not single), number, keys.data.ptr, claimed, out.data.ptr, keys.size)


def _scattered(x: Any, dim: int, index: Any, src: Any, name: str, how: str = "") -> Any:
    dim = indexing.fitting_along(x, dim, index, name, src if hasattr(src, "ndim") else None)
    out = cupy.array(x, order="C")
    if index.size:
        keys = _keys(index.reshape(index.shape or (1,)), x.shape or (1,), dim, name)
        if getattr(src, "ndim", 0) or how:
            src = cupy.broadcast_to(cupy.asarray(indexing.covered(src, index)), index.shape)
        _combine(out, keys, src, how) if how else _put(out, keys, src)
    return out


def scatter(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a copy of `x` with `out[i, index[i, j]] = src[i, j]` for dim 1, and so on."""
    return _scattered(x, dim, index, src, "scatter")


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a copy of `x` with `out[i, index[i, j]] += src[i, j]` for dim 1, and so on."""
    return _scattered(x, dim, index, src, "scatter_add", "Sum")


def scatter_prod(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a copy of `x` with `out[i, index[i, j]] *= src[i, j]` for dim 1, and so on."""
    return _scattered(x, dim, index, src, "scatter_reduce", "Product")


def scatter_extreme(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """The same with the larger ("amax") or smaller ("amin") of the two values."""
    return _scattered(x, dim, index, src, "scatter_reduce", "Largest" if reduce == "amax" else "Smallest")


def add_along_axis(x: Any, indices: Any, size: int, axis: int) -> Any:
    """Return zeros with length `size` along `axis`, to which `x` is added at `indices`: the transpose of `take_along_axis`."""
    if not indices.ndim:
        return cupy.array(x)
    axis %= indices.ndim
    out = cupy.zeros((*indices.shape[:axis], size, *indices.shape[axis + 1 :]), x.dtype)
    if indices.size:
        keys, x = _keys(indices, out.shape, axis, "add_along_axis", True), cupy.broadcast_to(x, indices.shape)
        _put(out, keys, x, once=True) if indices.shape[axis] == 1 else _combine(out, keys, x, "Sum")
    return out


def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    """Return a copy of `x` with the slices of `source`, times `alpha`, added at `index`."""
    dim = indexing.fitting_slices(x, dim, index, "index_add")
    indexing.fitting_source(x, dim, index, source, "index_add")
    out, shape = cupy.array(x, order="C"), x.shape or (1,)
    if index.size and x.size:
        keys = _keys(index.reshape(-1), shape[dim : dim + 1], 0, "index_add")
        source = cupy.broadcast_to(cupy.asarray(source if alpha == 1 else source * alpha), (*shape[:dim], index.size, *shape[dim + 1 :]))
        _combine(out, keys, source, "Sum", math.prod(shape[:dim]), math.prod(shape[dim + 1 :]))
    return out


def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    """Return a copy of `x` with the slices of `source`, or a number, written at `index`."""
    if index.dtype == numpy.int32 and index.ndim < 2:
        raise ValueError("index_copy_(): Expected a long tensor for index, but got Int")
    dim = indexing.fitting_slices(x, dim, index, "index_copy")
    indexing.fitting_source(x, dim, index, source, "index_copy", IndexError)
    out, shape = cupy.array(x, order="C"), x.shape or (1,)
    if index.size and x.size:
        index = cupy.broadcast_to(index.reshape((-1,) + (1,) * (len(shape) - dim - 1)), (*shape[:dim], index.size, *shape[dim + 1 :]))
        source = cupy.broadcast_to(source, index.shape) if getattr(source, "ndim", 0) else source
        _put(out, _keys(index, shape, dim, "index_copy"), source)
    return out


def flat_scatter(g: Any, index: Any, size: tuple) -> Any:
    """Add `g` at flat indices over the last dimensions, in zeros whose last dimensions are `size`."""
    lead = g.shape[: g.ndim - len(size)]
    out = cupy.zeros((math.prod(lead), math.prod(size)), g.dtype)
    if g.size and out.size:
        keys = _keys(index.reshape(out.shape[0], -1), out.shape, 1, "max_unpool")
        _combine(out, keys, g.reshape(-1), "Sum")
    return out.reshape(*lead, *size)


def add_rows(value: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    """Return the gradient of `rows`: zeros with rows added, 0 at the padding index; with `scale`, divided by each index's frequency."""
    length = value.shape[-1]
    out = cupy.zeros((count, length), value.dtype)
    if value.size:
        skip = NO_INDEX if padding_idx is None else padding_idx % count
        keys = _keys(index.reshape(-1), (count,), 0, "embedding_backward", True, skip)
        _combine(out, keys, value, "Sum", length=length, mean=scale)
    return out


def _add_at(out: Any, index: Any, value: Any) -> None:
    """`out[index] += value`, adding twice to a place that occurs twice."""
    rows: Any = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if hasattr(rows, "dtype") and rows.dtype.kind == "i" and out.ndim:
        rows = cupy.asarray(rows)
        shape, length = (*rows.shape, *out.shape[1:]), math.prod(out.shape[1:])
        keys = _keys(rows.reshape(-1), out.shape[:1], 0, "index_put", True) if rows.size and length else None
    else:
        places = cupy.arange(out.size, dtype=numpy.int64).reshape(out.shape)[index]
        shape, length, keys = places.shape, 1, places.reshape(-1) if places.size else None
    if keys is not None:
        _combine(out, keys, cupy.broadcast_to(cupy.asarray(value), shape), "Sum", length=length)


def put(x: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
    """Return a copy of `x` with `value` written, or added, at `index`."""
    look(x.shape, index if isinstance(index, tuple) else (index,), "index_put")
    if not accumulate:
        return indexing.put(x, index, value)
    out = cupy.array(x, order="C")
    _add_at(out, index, value)
    return out


def put_zeros(value: Any, shape: tuple, index: Any) -> Any:
    """Return zeros of `shape` with `value` added at `index`."""
    out = cupy.zeros(shape, value.dtype)
    if indexing.once(index):
        out[index] = value
    else:
        _add_at(out, index, value)
    return out
