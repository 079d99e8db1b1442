"""Reading and writing at indices, and embedding lookup, for NumPy and CuPy arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from ..base import dtypes
from ..base.errors import Refused
from ..base.layout import axes_of, kept_order
from . import fused
from .reference import _axis, accumulate, module_of, new_zeros
from .workers import share


def put(x: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
    """Return a copy of `x` with `value` written, or added, at `index`."""
    out = module_of(x).array(x, order=kept_order(x))  # also makes a NumPy scalar a writable array
    if accumulate:
        _add_at(out, index, value)
    else:
        write(out, *in_memory_order(out, index, value))
    return out


def write(out: Any, index: tuple, value: Any) -> None:
    """`out[index] = value`. On a GPU, one value is written at a mask's places without counting them, for which the host would wait."""
    lib = module_of(out)
    mask: Any = index[0] if len(index) == 1 else None
    masked = lib is not numpy and getattr(mask, "dtype", None) == numpy.bool_ and mask.shape == out.shape[: mask.ndim]
    if masked and getattr(value, "size", 1) == 1:
        value = lib.asarray(value, out.dtype).reshape(())
        lib.copyto(out, value, where=lib.asarray(mask).reshape(mask.shape + (1,) * (out.ndim - mask.ndim)))
    else:
        out[index] = value


def in_memory_order(x: Any, index: tuple, value: Any) -> tuple:
    """Transpose the index and the value so that of several elements for one place the last in memory is kept, as in PyTorch."""
    axes = axes_of(value) if getattr(value, "ndim", 0) > 1 and len(index) == x.ndim else None
    if axes is None or any(getattr(i, "dtype", numpy.bool_) == numpy.bool_ for i in index):
        return index, value
    if numpy.broadcast_shapes(*[i.shape for i in index]) != value.shape:
        return index, value
    return tuple(module_of(i).broadcast_to(i, value.shape).transpose(axes) for i in index), value.transpose(axes)


def put_zeros(value: Any, shape: tuple, index: Any) -> Any:
    """Return zeros of `shape` with `value` added at `index`."""
    out = new_zeros(value, shape)
    if once(index):
        out[index] = value
    else:
        _add_at(out, index, value)
    return out


def once(index: Any) -> bool:
    """Whether an index cannot select a place twice: it contains no array of integers."""
    items = index if isinstance(index, tuple) else (index,)
    return all(not hasattr(i, "dtype") or i.dtype.kind == "b" for i in items)


def _add_at(out: Any, index: Any, value: Any) -> None:
    """`out[index] += value`, adding twice to a place that occurs twice."""
    items = index if isinstance(index, tuple) else (index,)
    items = tuple(module_of(out).asarray(i) if isinstance(i, numpy.ndarray) else i for i in items)  # a list indexes a GPU's array too
    *before, last = items
    lines = getattr(last, "dtype", None) == numpy.int64 and last.ndim and all(i.__class__ is slice and i == slice(None) for i in before)
    if lines and out.ndim > 1 and out.size and out.flags.c_contiguous and out.dtype.kind == "f":
        lib, d, k, moved = module_of(out), len(before), last.ndim, out
        value = lib.broadcast_to(value, (*out.shape[:d], *last.shape, *out.shape[d + 1 :]))
        if before:
            value, moved = lib.moveaxis(value, range(d, d + k), range(k)), lib.moveaxis(out, d, 0)
        rows = value.reshape(last.size, out.size // len(moved))
        moved += _row_sums(last.reshape(-1), rows, len(moved)).reshape(moved.shape)
        return
    if out.ndim == 1 and len(items) == 1 and getattr(items[0], "ndim", 0) > 1:
        value = module_of(out).broadcast_to(value, items[0].shape)  # NumPy's `add.at` reads past the end of a smaller array
    accumulate("add", out, items, value)


def _row_sums(index: Any, rows: Any, count: int) -> Any:
    """Return a matrix of `count` rows, in which row i is the sum of the rows whose index is i."""
    lib, n = module_of(rows), index.size
    index = lib.where(index < 0, index + count, index)
    if index.dtype == numpy.int64 and (run := fused.kernel("add_rows", rows)) is not None:
        out = numpy.zeros((count, rows.shape[1]), rows.dtype)
        run(rows, index, out)
        return out
    if lib is numpy and count * n <= 1 << 18:
        chosen = numpy.zeros((count, n), rows.dtype)
        chosen[index, numpy.arange(n)] = 1
        sums = chosen @ rows
        if numpy.isfinite(sums).all():  # 0 * nan would spread to the other rows
            return sums.astype(rows.dtype, copy=False)  # a product of bfloat16 is float32
    out = lib.zeros((count, rows.shape[1]), rows.dtype)
    if lib is not numpy:
        accumulate("add", out, index, rows)
        return out
    if rows.shape[1] >= 64:  # long rows: 10 times faster one by one than by `reduceat`
        for i, row in zip(index.tolist(), rows, strict=True):
            out[i] += row
        return out
    order = numpy.argsort(index, kind="stable")
    ordered = index[order]
    first = numpy.flatnonzero(numpy.concatenate(([True], ordered[1:] != ordered[:-1])))
    out[ordered[first]] = rows[order] if first.size == n else numpy.add.reduceat(rows[order], first, axis=0)
    return out


def copied(x: Any, src: Any) -> Any:
    """Return `src`, an array or a number, broadcast to the shape and cast to the dtype of `x`."""
    out = module_of(x).empty_like(x, order=kept_order(x))
    out[...] = src
    return out


def fitting_along(x: Any, dim: int, index: Any, name: str, src: Any = None) -> int:
    """Return `dim` as a non-negative number, after PyTorch's checks of the shapes and dtypes of an index along it (ValueError)."""
    dim = _axis(x, dim)
    if index.size and index.dtype not in (numpy.int64, numpy.int32):
        raise ValueError(f"{name}(): Expected dtype int32/int64 for index")
    shape, want = x.shape or (1,), index.shape or (1,)
    if index.size and len(shape) != len(want):
        raise ValueError("Index tensor must have the same number of dimensions as input tensor")
    for d, n in enumerate(want if index.size else ()):
        if d != dim and n > shape[d]:
            raise ValueError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no larger than self {list(x.shape)} "
                f"apart from dimension {dim}"
            )
        if src is not None and n > (src.shape or (1,))[d]:
            raise ValueError(f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)} in all dimensions")
    return dim


def _along(x: Any, dim: int, index: Any, name: str, src: Any = None) -> tuple:
    """Return the full index for an index array along a dimension, after all checks (ValueError)."""
    dim = fitting_along(x, dim, index, name, src)
    lib, shape, want = module_of(x), x.shape or (1,), index.shape or (1,)
    if index.size == 0:
        return (lib.zeros((0,), numpy.int64),) * len(shape)
    _within(index, shape[dim], dim)
    grid = [lib.arange(n).reshape((-1,) + (1,) * (len(want) - d - 1)) for d, n in enumerate(want)]
    grid[dim] = index.reshape(want)
    return tuple(grid)


def _in_lines(x: Any, dim: int, index: Any) -> bool:
    """Whether an index array selects from each of many lines along the last dimension, of arrays that lie in memory line by line."""
    return bool(
        index.size
        and x.__class__ is numpy.ndarray
        and index.__class__ is numpy.ndarray
        and index.dtype == numpy.int64
        and x.ndim
        and dim in (-1, x.ndim - 1)
        and x.shape[:-1] == index.shape[:-1]
        and x.flags.c_contiguous
        and index.flags.carray
    )


def _within(index: Any, size: int, dim: int) -> None:
    """Raise ValueError for an index out of range."""
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= size:
        raise ValueError(f"index {low if low < 0 else high} is out of bounds for dimension {dim} with size {size}")


def _flat(lines: Any, places: Any) -> Any:
    """The places in a matrix's lines as places in its memory."""
    return places + numpy.arange(len(lines))[:, None] * lines.shape[1]


def gather(x: Any, dim: int, index: Any) -> Any:
    """`out[i, j] = x[i, index[i, j]]` for dim 1, and so on."""
    if _in_lines(x, dim, index):
        fitting_along(x, dim, index, "gather")
        _within(index, x.shape[-1], x.ndim - 1)
        out = numpy.empty(index.shape, x.dtype)
        lines, places, into = (a.reshape(-1, a.shape[-1]) for a in (x, index, out))
        if (run := fused.kernel("gather", lines, into)) is not None:
            share(run, (lines, places), last=(into,), work=index.size)
        else:
            lines.reshape(-1).take(_flat(lines, places), out=into, mode="clip")  # in range; "raise" would copy
        return out
    where = _along(x, dim, index, "gather")
    if index.size == 0:
        return new_zeros(x, index.shape)
    return x.reshape(x.shape or (1,))[where].reshape(index.shape)


def covered(src: Any, index: Any) -> Any:
    """Return the part of `src` that an index array covers."""
    if not hasattr(src, "shape") or src.shape == index.shape or not src.ndim:
        return src
    return src[tuple(slice(0, n) for n in index.shape)]


def _scattered(x: Any, dim: int, index: Any, src: Any, name: str, write: Any) -> Any:
    """Return a copy of `x` that `write(out, where, src)` has changed at the places of an index array."""
    where = _along(x, dim, index, name, src if hasattr(src, "ndim") else None)
    out = module_of(x).array(x, order="C")
    if index.size:
        src = covered(src, index)
        write(
            out.reshape(x.shape or (1,)),
            where,
            src.reshape(index.shape or (1,)) if hasattr(src, "reshape") and src.ndim == index.ndim else src,
        )
    return out


def scatter(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a copy of `x` with `out[i, index[i, j]] = src[i, j]` for dim 1, and so on."""

    def write(out: Any, where: tuple, src: Any) -> None:
        out[where] = src

    return _scattered(x, dim, index, src, "scatter", write)


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a copy of `x` with `out[i, index[i, j]] += src[i, j]` for dim 1, and so on."""
    many = index.size >= fused.LEAST and _in_lines(x, dim, index)
    if many and src.__class__ is numpy.ndarray and src.shape == index.shape and src.dtype == x.dtype:
        fitting_along(x, dim, index, "scatter_add", src)
        _within(index, x.shape[-1], x.ndim - 1)
        out = numpy.array(x)
        into, places, lines = (a.reshape(-1, a.shape[-1]) for a in (out, index, src))
        if (run := fused.kernel("scatter_add", into, lines)) is not None:
            share(run, (lines, places), last=(into,), work=index.size)
            return out
        if x.dtype in (numpy.float32, numpy.float64):
            into += numpy.bincount(_flat(into, places).reshape(-1), lines.reshape(-1), out.size).reshape(into.shape).astype(x.dtype)
            return out
    return _scattered(x, dim, index, src, "scatter_add", functools.partial(accumulate, "add"))


def scatter_prod(x: Any, dim: int, index: Any, src: Any) -> Any:
    """Return a copy of `x` with `out[i, index[i, j]] *= src[i, j]` for dim 1, and so on."""
    return _scattered(x, dim, index, src, "scatter_reduce", module_of(x).multiply.at)


def scatter_extreme(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """The same with the larger ("amax") or smaller ("amin") of the two values."""
    write = functools.partial(accumulate, "maximum" if reduce == "amax" else "minimum")
    return _scattered(x, dim, index, src, "scatter_reduce", write)


def add_along_axis(x: Any, indices: Any, size: int, axis: int) -> Any:
    """Return zeros with length `size` along `axis`, to which `x` is added at `indices`: the transpose of `take_along_axis`."""
    lib, n = module_of(x), indices.ndim
    if not n:
        return lib.array(x)
    axis %= n
    out = lib.zeros(indices.shape[:axis] + (size,) + indices.shape[axis + 1 :], x.dtype)
    grid = [lib.arange(m).reshape((-1,) + (1,) * (n - d - 1)) for d, m in enumerate(indices.shape)]
    grid[axis], x = indices, lib.broadcast_to(x, indices.shape)
    if indices.shape[axis] == 1:  # no place can occur twice
        out[tuple(grid)] = x
    else:
        accumulate("add", out, tuple(grid), x)
    return out


def fitting_slices(x: Any, dim: int, index: Any, name: str) -> int:
    """Return `dim` as a non-negative number, after PyTorch's checks of the shape and dtype of a 1-d (or 0-d) index along it."""
    dim = _axis(x, dim)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if index.size and index.dtype not in (numpy.int64, numpy.int32):
        raise ValueError(f"{name}(): Expected dtype int32/int64 for index")
    return dim


def _slices(x: Any, dim: int, index: Any, name: str, outside: type[Exception] = IndexError) -> tuple:
    """Return the full index of the slices that a 1-d (or 0-d) index selects along a dimension, after all checks."""
    dim = fitting_slices(x, dim, index, name)
    if index.size and (index.min() < 0 or index.max() >= (x.shape or (1,))[dim]):
        raise outside("index out of range in self")
    return (slice(None),) * dim + (index.reshape(-1),)


def index_select(x: Any, dim: int, index: Any) -> Any:
    """Return the slices that a 1-d index selects along a dimension; RuntimeError or IndexError, as in PyTorch, if out of range."""
    second = x.ndim > 1 and dim in (1, 1 - x.ndim)  # PyTorch's kernel for this dimension raises another error
    where = _slices(x, dim, index, "index_select", RuntimeError if second else IndexError)
    return x[where] if x.ndim else x.reshape(1)[where].reshape(())


def fitting_source(x: Any, dim: int, index: Any, source: Any, name: str, kind: type[Exception] = ValueError) -> None:
    """Raise an error unless `source` is a number or has one slice of `x` for each index."""
    if not hasattr(source, "shape"):
        return
    if not source.ndim and index.size != 1:
        told = f"{name}_(): When source is scalar, index should have one element (got {index.size})"
        raise IndexError(told) if kind is IndexError else Refused(told, IndexError)
    if kind is IndexError and x.ndim and source.ndim not in (0, x.ndim):
        raise IndexError(f"{name}_(): source has {source.ndim} dimensions and self {x.ndim}: their dimensionality must match")
    dim, given = _axis(x, dim), source.shape or (1,)
    want = x.shape or (1,)
    told = f"{name}_(): Number of indices ({index.size}) should be equal to source.size(dim), for dim {dim} of {list(given)}"
    if kind is not IndexError and (dim >= len(given) or given[dim] != index.size):
        raise ValueError(told)
    if source.ndim and given[:dim] + given[dim + 1 :] != want[:dim] + want[dim + 1 :]:
        raise ValueError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
        )
    if given[dim] != index.size:
        raise Refused(told, kind)


def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    """Return a copy of `x` with the slices of `source`, times `alpha`, added at `index`."""
    where = _slices(x, dim, index, "index_add", RuntimeError)
    fitting_source(x, dim, index, source, "index_add")
    out = module_of(x).array(x, order="C")
    _add_at(out.reshape(x.shape or (1,)), where, source if alpha == 1 else source * alpha)
    return out


def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    """Return a copy of `x` with the slices of `source`, or a number, written at `index`."""
    if index.dtype == numpy.int32 and index.ndim < 2:
        raise ValueError("index_copy_(): Expected a long tensor for index, but got Int")
    where = _slices(x, dim, index, "index_copy")
    fitting_source(x, dim, index, source, "index_copy", IndexError)
    out = module_of(x).array(x, order="C")
    out.reshape(x.shape or (1,))[where] = source
    return out


def fitting_mask(x: Any, mask: Any, value: Any) -> None:
    """Raise ValueError for a mask that is not boolean, a value of more dimensions, and a complex value for real elements."""
    if mask.dtype.kind != "b":
        raise ValueError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if getattr(value, "ndim", 0):
        raise ValueError(f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
    if x.dtype.kind != "c" and hasattr(value, "dtype") and value.dtype.kind == "c" and value.imag != 0:
        raise ValueError(f"value cannot be converted to type {x.dtype} without overflow")


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """Return a copy of `x`, broadcast with `mask`, with a number or 0-d array written where `mask` is True."""
    fitting_mask(x, mask, value)
    value = fill_value(value, x.dtype)
    found = masked(x, mask, value)
    return module_of(x).where(mask, value, x).astype(x.dtype, copy=False) if found is None else found  # CuPy's `where` widens bfloat16


def masked(x: Any, mask: Any, value: Any) -> Any:
    """`masked_fill` by the compiled kernel; None if there is none, or if the mask is not of the last dimensions of `x`."""
    shape = getattr(mask, "shape", ())
    if not shape or x.shape[x.ndim - len(shape) :] != shape or (run := fused.kernel("masked", x)) is None or not mask.flags.c_contiguous:
        return None
    out, lines = numpy.empty_like(x), mask.size if mask.size < x.size else x.shape[-1]
    marks, given, into = mask.view(numpy.uint8).reshape(-1, lines), x.reshape(-1, lines), out.reshape(-1, lines)
    if len(marks) == len(given):
        share(run, (given, marks), float(value), last=(into,))
    else:
        share(run, (given,), marks, float(value), last=(into,))
    return out


def fill_value(value: Any, dtype: Any) -> Any:
    """Convert a number or array for writing it into an array of `dtype`."""
    return value.astype(dtype) if hasattr(value, "dtype") else dtype.type(dtypes.fitting(value, dtypes.FROM_NUMPY[dtype]))


# -- embedding ---------------------------------------------------------------------------------------------------------------


def rows(weight: Any, index: Any) -> Any:
    """Return the rows of a matrix at `index`; IndexError if it is out of range or negative, ValueError unless `weight` is 2-d."""
    if weight.ndim != 2:
        raise ValueError("'weight' must be 2-D")
    if index.size and (index.min() < 0 or index.max() >= weight.shape[0]):
        raise IndexError("index out of range in self")
    return weight.take(index, axis=0)


def _frequency(index: Any, count: int) -> Any:
    return module_of(index).bincount(index.reshape(-1), minlength=count)[index][..., None]


def add_rows(value: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    """Return the gradient of `rows`: zeros with rows added, 0 at the padding index; with `scale`, divided by each index's frequency."""
    if scale:
        value = value / _frequency(index, count).astype(value.dtype)
    d = value.shape[-1]
    out = _row_sums(index.reshape(-1), value.reshape(index.size, d), count)
    if padding_idx is not None:
        out[padding_idx] = 0
    return out


def read_rows(weight: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    """The transpose of `add_rows`."""
    out = weight.take(index, axis=0)
    if scale:
        out /= _frequency(index, count).astype(out.dtype)
    if padding_idx is not None:
        write(out, (index == padding_idx,), 0)
    return out
