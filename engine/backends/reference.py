"""Array code that NumPy has no name for, written plainly: the truth that faster kernels are tested against."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy


def reshape(x: Any, shape: Any) -> Any:
    """The elements under another shape; a view where the strides allow it."""
    return x.reshape(shape)


def view(x: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The same memory under another shape, or read as another dtype; ValueError when the strides do not allow it."""
    if dtype is not None:
        return x.view(dtype)
    out = x.reshape(shape)
    owner = x.base if isinstance(x.base, x.__class__) else x
    if out.base is not owner and x.size:
        raise ValueError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). "
            "Use .reshape(...) instead."
        )
    return out


def swapaxes(x: Any, a: int, b: int) -> Any:
    """Two dimensions exchanged; of a 0-d array, the array."""
    return x.swapaxes(a, b) if x.ndim or not {a, b} <= {0, -1} else x.view()


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Some dimensions moved to other places; of a 0-d array, the array."""
    return _library(x).moveaxis(x, source, destination) if x.ndim else swapaxes(x, source, destination)


def transpose(x: Any, axes: Any) -> Any:
    """The dimensions in another order."""
    return x.transpose(axes)


def matrix_transpose(x: Any) -> Any:
    """The last two dimensions exchanged."""
    return x.swapaxes(-1, -2)


def expand_dims(x: Any, axis: Any) -> Any:
    """A new dimension of size 1 at `axis`; a view."""
    if not isinstance(axis, int):
        return numpy.expand_dims(x, axis)
    shape, n = x.shape, x.ndim + 1
    if not -n <= axis < n:
        raise numpy.exceptions.AxisError(axis, n)
    axis %= n
    return x.reshape(shape[:axis] + (1,) + shape[axis:])


def broadcast_to(x: Any, shape: Any) -> Any:
    """The elements repeated to a shape without copying; the same memory, writable, when the shape is the array's own."""
    return x[...] if x.shape == shape else numpy.broadcast_to(x, shape)


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A view of a diagonal, as writable as the array."""
    out = x.diagonal(offset, dim1, dim2)
    if isinstance(out, numpy.ndarray):
        out.flags.writeable = x.flags.writeable
    return out


def put_diagonal(value: Any, shape: tuple, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Zeros of `shape` with `value` on a diagonal."""
    out = _zeros(value, shape)
    diagonal(out, offset, dim1, dim2)[...] = value
    return out


def strided(x: Any, shape: tuple, strides: tuple) -> Any:
    """A view of the array's memory under any shape and strides (in bytes), which knows whose memory it is."""
    if not isinstance(x, numpy.ndarray):
        return _library(x).lib.stride_tricks.as_strided(x, shape, strides)
    owner = x.base if isinstance(x.base, numpy.ndarray) else x
    buffer = owner if owner.flags.c_contiguous else owner.T
    at = x.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return numpy.ndarray(shape, x.dtype, buffer, at, strides)


def windows(x: Any, dim: int, size: int, step: int) -> Any:
    """A view of all windows of `size` elements along a dimension, `step` apart, as a new last dimension."""
    dim = _axis(x, dim)
    n = x.shape[dim] if x.ndim else 1
    if size > n:
        raise ValueError(f"maximum size for tensor at dimension {dim} is {n} but size is {size}")
    if size < 0 or step <= 0:
        raise ValueError(f"size is {size} but must be >= 0, step is {step} but must be > 0")
    if not x.ndim:
        return x.reshape(1)[:size]
    shape, strides = list(x.shape), list(x.strides)
    shape[dim], strides[dim] = (n - size) // step + 1, strides[dim] * step
    return strided(x, (*shape, size), (*strides, x.strides[dim]))


def put_windows(value: Any, shape: tuple, dim: int, size: int, step: int) -> Any:
    """Zeros of `shape` with windows added where `windows` reads them."""
    out = _zeros(value, shape)
    if not shape:
        return value.reshape(-1)[0] + out if size else out
    dim %= len(shape)
    n = value.shape[dim]
    for k in range(size):
        out[(slice(None),) * dim + (slice(k, k + n * step, step),)] += value[..., k]
    return out


def flip(x: Any, axis: Any = None) -> Any:
    """The elements in reverse order along some dimensions; a copy, for negative strides are a trap to other libraries."""
    axis = (axis,) if isinstance(axis, int) else axis
    if axis is not None and len({d % max(x.ndim, 1) for d in axis}) != len(axis):
        raise ValueError(f"dim {axis[-1]} appears multiple times in the list of dims")
    return numpy.flip(x, axis if x.ndim else ()).copy()


def _library(x: Any) -> Any:
    """The module an array belongs to: NumPy or CuPy."""
    return numpy if isinstance(x, (numpy.ndarray, numpy.generic)) else import_module("cupy")


def _zeros(beside: Any, shape: tuple) -> Any:
    return _library(beside).zeros(shape, beside.dtype)


# -- through a path of views -------------------------------------------------------------------------------------------------


def read_through(x: Any, path: tuple) -> Any:
    """What is seen of `x` at the end of a path of view ops: `((op, attrs), ...)`."""
    xp = import_module(f"{__package__}.{'cpu' if _library(x) is numpy else 'cuda'}")
    for op, attrs in path:
        x = op.forward(xp, x, **attrs)
    return x


def write_through(x: Any, value: Any, path: tuple) -> Any:
    """A copy of `x` with what is seen at the end of the path replaced by `value`."""
    out = x.copy(order="K")
    seen = read_through(out, path)
    if seen.base is not out and seen is not out:
        # this copy's strides made a step of the path a copy: find where its elements come from instead
        out = x.copy()
        places = read_through(_library(x).arange(x.size).reshape(x.shape), path)
        out.reshape(-1)[places] = value
        return out
    seen[...] = value
    return out


# -- at an index -------------------------------------------------------------------------------------------------------------


def put(x: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
    """A copy of `x` with `value` written, or added, at `index`."""
    out = x.copy()
    if accumulate:
        _add_at(out, index, value)
    else:
        out[index] = value
    return out


def put_zeros(value: Any, shape: tuple, index: Any) -> Any:
    """Zeros of `shape` with `value` added at `index`."""
    out = _zeros(value, shape)
    if _once(index):
        out[index] = value
    else:
        _add_at(out, index, value)
    return out


def _once(index: Any) -> bool:
    """Whether no place can occur twice at an index: no array of integers is in it."""
    for i in index if isinstance(index, tuple) else (index,):
        if hasattr(i, "dtype") and i.dtype.kind != "b":
            return False
    return True


def _add_at(out: Any, index: Any, value: Any) -> None:
    """`out[index] += value` where a place that occurs twice is added to twice."""
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and out.ndim > 1 and out.flags.c_contiguous and out.dtype.kind == "f" and getattr(items[0], "dtype", None) == numpy.int64:
        where = items[0].reshape(-1)
        value = _library(out).broadcast_to(value, (*items[0].shape, *out.shape[1:]))
        rows = out.reshape(out.shape[0], -1)
        rows += _row_sums(where, value.reshape(where.size, rows.shape[1]), out.shape[0])
        return
    _library(out).add.at(out, index, value)


def _row_sums(index: Any, rows: Any, count: int) -> Any:
    """A matrix of `count` rows; row i is the sum of those rows whose index is i."""
    lib, n = _library(rows), index.size
    index = lib.where(index < 0, index + count, index)
    if count * n <= 1 << 18:
        chosen = lib.zeros((count, n), rows.dtype)
        chosen[index, lib.arange(n)] = 1
        return chosen @ rows
    out = lib.zeros((count, rows.shape[1]), rows.dtype)
    if lib is not numpy:
        lib.add.at(out, index, rows)
        return out
    order = numpy.argsort(index, kind="stable")
    ordered = index[order]
    first = numpy.flatnonzero(numpy.concatenate(([True], ordered[1:] != ordered[:-1])))
    out[ordered[first]] = rows[order] if first.size == n else numpy.add.reduceat(rows[order], first, axis=0)
    return out


def copied(x: Any, src: Any) -> Any:
    """`src`, an array or a number, in the shape and dtype of `x`."""
    out = _library(x).empty_like(x)
    out[...] = src
    return out


def _axis(x: Any, dim: int) -> int:
    n = max(x.ndim, 1)
    if not -n <= dim < n:
        raise numpy.exceptions.AxisError(dim, n)
    return dim % n


def _along(x: Any, dim: int, index: Any, name: str, src: Any = None) -> tuple:
    """The full index that an index array means along a dimension, checked as PyTorch does."""
    dim = _axis(x, dim)
    if index.dtype.kind not in "iu":
        raise ValueError(f"{name}(): Expected dtype int64 for index")
    lib, shape, want = _library(x), x.shape or (1,), index.shape or (1,)
    if index.size == 0:
        return (lib.zeros((0,), numpy.int64),) * len(shape)
    if len(shape) != len(want):
        raise ValueError("Index tensor must have the same number of dimensions as input tensor")
    for d, n in enumerate(want):
        if d != dim and n > shape[d]:
            raise ValueError(f"Size does not match at dimension {d} expected index {list(index.shape)} to be no larger than self {list(x.shape)} apart from dimension {dim}")
        if src is not None and n > (src.shape or (1,))[d]:
            raise ValueError(f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)} in all dimensions")
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= shape[dim]:
        raise ValueError(f"index {low if low < 0 else high} is out of bounds for dimension {dim} with size {shape[dim]}")
    grid = [lib.arange(n).reshape((-1,) + (1,) * (len(want) - d - 1)) for d, n in enumerate(want)]
    grid[dim] = index.reshape(want)
    return tuple(grid)


def gather(x: Any, dim: int, index: Any) -> Any:
    """`out[i, j] = x[i, index[i, j]]` for dim 1, and so on."""
    where = _along(x, dim, index, "gather")
    if index.size == 0:
        return _zeros(x, index.shape)
    return x.reshape(x.shape or (1,))[where].reshape(index.shape)


def _source(src: Any, index: Any) -> Any:
    """The part of `src` that an index array covers."""
    if not hasattr(src, "shape") or src.shape == index.shape or not src.ndim:
        return src
    return src[tuple(slice(0, n) for n in index.shape)]


def _scattered(x: Any, dim: int, index: Any, src: Any, name: str, write: Any) -> Any:
    """A copy of `x` changed by `write(out, where, src)` at the places of an index array."""
    where = _along(x, dim, index, name, src if getattr(src, "ndim", 0) else None)
    out = x.copy(order="C")
    if index.size:
        src = _source(src, index)
        write(out.reshape(x.shape or (1,)), where, src.reshape(index.shape or (1,)) if hasattr(src, "reshape") and src.ndim == index.ndim else src)
    return out


def scatter(x: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy of `x` with `out[i, index[i, j]] = src[i, j]` for dim 1, and so on."""

    def write(out: Any, where: tuple, src: Any) -> None:
        out[where] = src

    return _scattered(x, dim, index, src, "scatter", write)


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy of `x` with `out[i, index[i, j]] += src[i, j]` for dim 1, and so on."""
    return _scattered(x, dim, index, src, "scatter_add", _library(x).add.at)


def scatter_prod(x: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy of `x` with `out[i, index[i, j]] *= src[i, j]` for dim 1, and so on."""
    return _scattered(x, dim, index, src, "scatter_reduce", _library(x).multiply.at)


def scatter_extreme(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """The same with the larger ("amax") or smaller ("amin") of the two."""
    lib = _library(x)
    return _scattered(x, dim, index, src, "scatter_reduce", (lib.maximum if reduce == "amax" else lib.minimum).at)


def _slices(x: Any, dim: int, index: Any, name: str) -> tuple:
    """The full index of the slices that a 1-d (or 0-d) index names along a dimension."""
    dim, n = _axis(x, dim), x.shape[dim] if x.ndim else 1
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if index.dtype.kind not in "iu":
        raise ValueError(f"{name}(): Expected dtype int32/int64 for index")
    if index.size and (index.min() < 0 or index.max() >= n):
        raise IndexError("index out of range in self")
    return (slice(None),) * dim + (index.reshape(-1),)


def index_select(x: Any, dim: int, index: Any) -> Any:
    """The slices that a 1-d index names along a dimension."""
    where = _slices(x, dim, index, "index_select")
    return x[where] if x.ndim else x.reshape(1)[where].reshape(())


def _fitting(x: Any, dim: int, index: Any, source: Any, name: str) -> None:
    """Refuse a `source` that does not have one slice of `x` for each index."""
    if not hasattr(source, "shape"):
        return
    dim, given = _axis(x, dim), source.shape or (1,)
    if given[dim if source.ndim else 0] != index.size:
        raise ValueError(f"{name}_(): Number of indices ({index.size}) should be equal to source.size(dim): ({given[dim]}), for dim: {dim}")
    want = x.shape or (1,)
    if source.ndim and given[:dim] + given[dim + 1 :] != want[:dim] + want[dim + 1 :]:
        raise ValueError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
        )


def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    """A copy of `x` with slices of `source`, times `alpha`, added."""
    where = _slices(x, dim, index, "index_add") if x.size else ()
    _fitting(x, dim, index, source, "index_add")
    out = x.copy(order="C")
    if x.size:
        _add_at(out.reshape(x.shape or (1,)), where, source if alpha == 1 else source * alpha)
    return out


def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy of `x` with slices of `source`, or a number, written."""
    where = _slices(x, dim, index, "index_copy") if x.size else ()
    _fitting(x, dim, index, source, "index_copy")
    out = x.copy(order="C")
    if x.size:
        out.reshape(x.shape or (1,))[where] = source
    return out


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """A copy of `x`, broadcast with `mask`, with a number, or a 0-d array, where `mask` is True."""
    if mask.dtype.kind != "b":
        raise ValueError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if getattr(value, "ndim", 0):
        raise ValueError(f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
    if x.dtype.kind != "c" and isinstance(value, complex):
        raise ValueError(f"value cannot be converted to type {x.dtype} without overflow")
    return _library(x).where(mask, x.dtype.type(value) if not hasattr(value, "dtype") else value.astype(x.dtype), x)


# -- products ----------------------------------------------------------------------------------------------------------------


def matmul(a: Any, b: Any) -> Any:
    """The matrix product; (*, n, m) by one matrix is a single product of matrices."""
    if a.ndim > 2 and b.ndim == 2 and a.size and a.shape[-1] == b.shape[0]:
        return (a.reshape(-1, a.shape[-1]) @ b).reshape(*a.shape[:-1], b.shape[1])
    return a @ b


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """`x @ weight.T + bias`, with the bias added in place."""
    if weight.ndim == 1:
        out = x @ weight
        return out if bias is None else out + bias
    out = matmul(x, weight.T)
    if bias is None:
        return out
    if bias.ndim > out.ndim:
        return out + bias
    out += bias
    return out


def contract(operands: Any, equation: str) -> Any:
    """`einsum` whose subscripts are letters, none of them twice in one operand; two operands go to the matrix product."""
    if len(operands) != 2:
        return _library(operands[0]).einsum(equation, *operands, optimize=len(operands) > 2)
    a, b = operands
    terms, out = equation.split("->")
    one, two = terms.split(",")
    batch = [c for c in out if c in one and c in two]
    inner = [c for c in one if c in two and c not in out]
    mine, yours = ([c for c in term if c not in batch and c not in inner] for term in (one, two))
    sizes = dict(zip(one + two, a.shape + b.shape, strict=True))
    shape = [sizes[c] for c in batch]
    n, k, m = (math.prod(sizes[c] for c in letters) for letters in (mine, inner, yours))
    a = a.transpose([one.index(c) for c in batch + mine + inner]).reshape(*shape, n, k)
    b = b.transpose([two.index(c) for c in batch + inner + yours]).reshape(*shape, k, m)
    whole = batch + mine + yours
    return (a @ b).reshape([sizes[c] for c in whole]).transpose([whole.index(c) for c in out])


# -- order -------------------------------------------------------------------------------------------------------------------


def sorted(x: Any, dim: int, descending: bool, stable: bool) -> tuple:
    """The elements in order along a dimension, and their indices; NaN counts as the largest."""
    dim, lib = _axis(x, dim), _library(x)
    if not x.ndim:
        return x.copy(), lib.zeros((), numpy.int64)
    if descending:
        places = lib.flip(x.shape[dim] - 1 - lib.argsort(lib.flip(x, dim), axis=dim, kind="stable"), dim)
    else:
        places = lib.argsort(x, axis=dim, kind="stable" if stable or x.dtype.kind != "f" else None)
    return lib.take_along_axis(x, places, dim), lib.ascontiguousarray(places)


def topk(x: Any, k: int, dim: int, largest: bool) -> tuple:
    """The `k` largest or smallest elements along a dimension, in order, and their indices."""
    dim, lib = _axis(x, dim), _library(x)
    n = x.shape[dim] if x.ndim else 1
    if not 0 <= k <= n:
        raise ValueError("selected index k out of range")
    if not x.ndim:
        shape = () if k else (0,)
        return x.reshape(1)[:k].reshape(shape).copy(), lib.zeros(shape, numpy.int64)
    lead = (slice(None),) * dim
    if k and k * 8 < n:
        some = lib.argpartition(x, n - k if largest else k - 1, axis=dim)[(*lead, slice(n - k, None) if largest else slice(0, k))]
        values, order = sorted(lib.take_along_axis(x, some, dim), dim, largest, False)
        return values, lib.take_along_axis(some, order, dim)
    values, order = sorted(x, dim, largest, False)
    return values[(*lead, slice(0, k))].copy(), order[(*lead, slice(0, k))].copy()


# -- embedding ---------------------------------------------------------------------------------------------------------------


def rows(weight: Any, index: Any) -> Any:
    """The rows of a matrix that integers name; IndexError for negative ones too."""
    if weight.ndim != 2:
        raise ValueError("'weight' must be 2-D")
    if index.size and (index.min() < 0 or index.max() >= weight.shape[0]):
        raise IndexError("index out of range in self")
    return weight.take(index, axis=0)


def _frequency(index: Any, count: int) -> Any:
    return _library(index).bincount(index.reshape(-1), minlength=count)[index][..., None]


def add_rows(value: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    """The gradient of `rows`: zeros with rows added, none for the padding index, divided by the index's frequency if `scale`."""
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
        out[index == padding_idx] = 0
    return out


# -- padding -----------------------------------------------------------------------------------------------------------------


def constant_pad(x: Any, pad: tuple, value: Any = 0) -> Any:
    """A number around the array: `pad` holds (before, after) from the last dimension on; negative sizes cut off."""
    n = x.ndim
    widths = [(0, 0)] * (n - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    shape = tuple(size + a + b for size, (a, b) in zip(x.shape, widths, strict=True))
    kept = (size + min(a, 0) + min(b, 0) for size, (a, b) in zip(x.shape, widths, strict=True))
    if min(shape, default=0) < 0 or min(kept, default=0) < 0:
        raise ValueError(f"The input size {list(x.shape)}, plus negative padding {list(pad)}, resulted in a negative output size, which is invalid. Check dimensions of your input.")
    out = _library(x).full(shape, value, x.dtype)
    inner = tuple(slice(max(a, 0), size - max(b, 0)) for size, (a, b) in zip(shape, widths, strict=True))
    taken = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, widths, strict=True))
    out[inner] = x[taken]
    return out


# -- linear algebra ----------------------------------------------------------------------------------------------------------


def inv(x: Any) -> Any:
    """The inverse; LinAlgError of a singular matrix."""
    return _library(x).linalg.inv(x)


def det(x: Any) -> Any:
    """The determinant."""
    return _library(x).linalg.det(x)


def slogdet(x: Any) -> tuple:
    """The determinant's sign and the logarithm of its size."""
    return tuple(_library(x).linalg.slogdet(x))


def cofactor(x: Any) -> Any:
    """The matrix of cofactors, from the singular values: det(U) det(V) conj(U diag(products of the others) V^H)."""
    lib, n = _library(x), x.shape[-1]
    u, s, vh = lib.linalg.svd(x)
    others = lib.where(lib.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    turn = lib.linalg.det(u) * lib.linalg.det(vh)
    return turn[..., None, None] * ((u * others[..., None, :]) @ vh).conj()


def solve_matrix(a: Any, b: Any) -> Any:
    """The matrix X with `a @ X == b`."""
    return _library(a).linalg.solve(a, b)


def cholesky(x: Any, upper: bool = False) -> Any:
    """The lower (or upper) Cholesky factor."""
    out = _library(x).linalg.cholesky(x)
    return out.conj().swapaxes(-1, -2).copy() if upper else out


def qr(x: Any, mode: str = "reduced") -> tuple:
    """Q and R; Q is empty in mode "r"."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    found = _library(x).linalg.qr(x, mode)
    return (_zeros(x, (0,)), found) if mode == "r" else tuple(found)


def eigh(x: Any, uplo: str = "L") -> tuple:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    return tuple(_library(x).linalg.eigh(x, uplo))


def svd(x: Any, full_matrices: bool = True) -> tuple:
    """U, S and Vh."""
    return tuple(_library(x).linalg.svd(x, full_matrices))


def pinv(x: Any, rtol: float | None = None, hermitian: bool = False) -> Any:
    """The pseudoinverse; by default with max(n, m) eps as the relative tolerance."""
    lib = _library(x)
    rtol = max(x.shape[-2:]) * float(numpy.finfo(x.dtype).eps) if rtol is None else rtol
    return lib.linalg.pinv(x, rtol, hermitian)
