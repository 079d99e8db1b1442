"""Ops that join and repeat tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy

from ..base import dtypes
from ..base.errors import Refused, warn
from ..base.layout import as_all
from ..core import devices
from ..core.devices import namespace
from ..core.op import Linear, composite
from ..core.tensor import Tensor
from .front import must_be_tensors
from .index import getitem
from .pad import constant_pad
from .shape import expand, in_sequence, permute, reshape, unsqueeze, wrap_dim


class Join(Linear):
    """Base of ops that take a sequence of tensors and promote their dtypes."""
    variadic, inputs, types, exact, method, row_major = True, ("tensors",), "promote", True, False, True

    @classmethod
    def prepare(cls, arrays):
        if not arrays:
            raise Refused(*cls.nothing)
        for i, a in enumerate(arrays):
            if not hasattr(a, "dtype"):
                raise Refused(f"expected Tensor as element {i} in argument 0, but got {type(a).__name__}", TypeError)
        first = arrays[0].dtype
        if all(getattr(a, "dtype", None) is first for a in arrays):
            return arrays, devices.common(arrays, cls.name)
        return super().prepare(arrays)


class cat(Join):
    """Concatenate tensors along a dimension; their other sizes must agree."""
    aliases, nothing = ("concat", "concatenate"), ("expected a non-empty list of Tensors", ValueError)
    laid = staticmethod(as_all)
    examples = ((((2, 3), (4, 3)), {}), (((2,), (3,), (1,)), {}), (((2, 3), (2, 1)), {"dim": -1}))
    def forward(xp, tensors, dim=0): return xp.concatenate(joinable(tensors, dim), axis=dim)
    def d_tensors(xp, g, shapes, dim): return [g[part] for part in parts(shapes, dim)]


class stack(Join):
    """Stack tensors of equal shape along a new dimension."""
    nothing = ("stack expects a non-empty TensorList",)
    examples = ((((2, 3), (2, 3)), {}), (((2, 3), (2, 3)), {"dim": -1}), (((), (), ()), {}))
    def forward(xp, tensors, dim=0):
        wrap_dim(dim, tensors[0].ndim + 1)
        return xp.stack(alike(tensors), axis=dim)

    def d_tensors(xp, g, shapes, dim): return [g[(slice(None),) * (dim % g.ndim) + (i,)] for i in range(len(shapes))]


class tile(Linear):
    """Repeat the tensor `dims[i]` times along each dimension."""
    inputs, varargs, exact, row_major = ("input",), True, True, True
    examples = ((((2, 3),), {"dims": (2, 2)}), (((2, 3),), {"dims": (2,)}), (((3,),), {"dims": (2, 1, 2)}))
    def forward(xp, input, dims): return xp.tile(input, dims)
    def d_input(xp, g, shape, dims): return untiled(xp, g, shape, dims)


in_sequence(tile, "dims")


# -- checks and gradients ----------------------------------------------------------------------------------------------------


def joinable(tensors: Sequence, dim: int) -> list:
    """Return the arrays that `cat` joins: PyTorch accepts an empty 1-d tensor beside any shape."""
    for i, t in enumerate(tensors):
        if t is None:
            raise Refused(f"expected Tensor as element {i} in argument 0, but got NoneType", TypeError)
    kept = [t for t in tensors if tuple(t.shape) != (0,)] or list(tensors[:1])
    first = kept[0].shape
    for i, t in enumerate(tensors):
        if t.ndim == 0:
            raise Refused(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    d = wrap_dim(dim, len(first))
    for t in kept:
        if t.ndim != len(first):
            raise Refused(f"Tensors must have same number of dimensions: got {len(first)} and {t.ndim}")
        if t.shape[:d] != first[:d] or t.shape[d + 1 :] != first[d + 1 :]:
            at = next(i for i, (a, b) in enumerate(zip(first, t.shape, strict=True)) if i != d and a != b)
            where = next(i for i, other in enumerate(tensors) if other is t)
            raise Refused(f"Sizes of tensors must match except in dimension {d}. Expected size {first[at]} but got size {t.shape[at]} for tensor number {where} in the list.")
    return kept


def parts(shapes: Sequence, dim: int) -> list:
    """Return the index of each joined tensor in the result of `cat`."""
    ndim = max(map(len, shapes))
    lead, at, found = (slice(None),) * (dim % ndim), 0, []
    for shape in shapes:
        n = shape[dim] if len(shape) == ndim else 0
        found.append((*lead, slice(at, at + n)) if len(shape) == ndim else (slice(0, 0),) * ndim)
        at += n
    return found


def alike(tensors: Sequence) -> Sequence:
    for i, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise Refused(f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and {list(t.shape)} at entry {i}")
    return tensors


def untiled(xp: Any, g: Any, shape: tuple, dims: Any) -> Any:
    """Sum the gradient over the copies: each dimension is split into (copies, size)."""
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    n = max(len(dims), len(shape))
    dims, sizes = (1,) * (n - len(dims)) + dims, (1,) * (n - len(shape)) + tuple(shape)
    split = xp.reshape(g, tuple(itertools.chain.from_iterable(zip(dims, sizes, strict=True))))
    return xp.reshape(xp.sum(split, axis=tuple(range(0, 2 * n, 2))), tuple(shape))


# -- composites ----------------------------------------------------------------------------------------------------------------


def _each(fn: Any, tensors: tuple) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        must_be_tensors(tensors[0])
        return tuple(fn(t) for t in tensors[0])
    must_be_tensors(tensors)
    found = tuple(fn(t) for t in tensors)
    return found[0] if len(found) == 1 else found


@composite
def atleast_1d(*tensors: Any) -> Any:
    """Turn 0-d tensors into 1-d ones; others are unchanged."""
    return _each(lambda t: t if t.ndim else reshape(t, (1,)), tensors)


@composite
def atleast_2d(*tensors: Any) -> Any:
    """Add leading dimensions to tensors of fewer than two."""
    return _each(lambda t: t if t.ndim > 1 else reshape(t, (1, t.numel())), tensors)


@composite
def atleast_3d(*tensors: Any) -> Any:
    """Add dimensions to tensors of fewer than three: (n,) becomes (1, n, 1), (n, m) becomes (n, m, 1)."""
    return _each(lambda t: t if t.ndim > 2 else unsqueeze(t, -1) if t.ndim == 2 else reshape(t, (1, t.numel(), 1)), tensors)


def _some(tensors: Sequence[Tensor], name: str) -> Sequence[Tensor]:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    must_be_tensors(tensors)
    return tensors


@composite
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate along the second dimension, 1-d tensors along the first."""
    whole = [atleast_1d(t) for t in _some(tensors, "hstack")]
    return cat(whole, 0 if whole[0].ndim == 1 else 1)


@composite(aliases=("row_stack",))
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate along the first dimension; 1-d tensors are rows."""
    return cat([atleast_2d(t) for t in _some(tensors, "vstack")], 0)


@composite
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate along the third dimension."""
    return cat([atleast_3d(t) for t in _some(tensors, "dstack")], 2)


@composite
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate along the second dimension; 1-d tensors are columns."""
    return cat([t if t.ndim > 1 else reshape(t, (t.numel(), 1)) for t in tensors], 1)


@composite(home="Tensor", method=True)
def repeat(self: Tensor, *sizes: Any, repeats: Any = None) -> Tensor:
    """Repeat the tensor along each dimension; more sizes than dimensions add leading ones."""
    sizes = sizes if repeats is None else (repeats,)
    if not sizes or isinstance(sizes[0], str):
        raise TypeError(f"repeat(): argument 'repeats' must be tuple of ints, got {sizes}")
    sizes = tuple(sizes[0]) if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else sizes
    if len(sizes) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return tile(self, sizes)


def _countable(repeats: Tensor) -> None:
    if repeats.dtype not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(f"repeat_interleave: not implemented for repeats of {repeats.dtype.name}")


@composite(method=True)
def repeat_interleave(input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Repeat each slice `repeats` times, a scalar or one count for each; without `dim`, the elements of the flattened tensor.

    For a single tensor of counts, return each index repeated as often as its count.
    """
    if repeats is None:
        _countable(input)
        if input.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        if output_size is not None and output_size != input.sum().item():
            raise RuntimeError("allocated size does not match required size")
        return repeat_interleave(Tensor._wrap(namespace(input.array).arange(input.shape[0], dtype=input.array.dtype)), input, 0)
    if isinstance(repeats, int) and repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    if dim is None:
        input, dim = reshape(input, (input.numel(),)), 0
    n = input.shape[wrap_dim(dim, input.ndim)]
    if isinstance(repeats, Tensor) and repeats.is_meta:
        if output_size is None:
            raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
        places = input.new_empty((output_size,), dtype=dtypes.int64)
        return getitem(input, (slice(None),) * wrap_dim(dim, input.ndim) + (places.array,))
    counts = numpy.asarray(repeats._host() if isinstance(repeats, Tensor) else repeats)
    if counts.ndim > 1 or counts.size not in (1, n):
        raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and input.size({dim}) = {n}")
    if isinstance(repeats, Tensor):
        _countable(repeats)
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    places = numpy.repeat(numpy.arange(n), counts)
    if output_size not in (None, len(places)):
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {len(places)} but got {output_size}")
    return getitem(input, (slice(None),) * wrap_dim(dim, input.ndim) + (namespace(input.array).asarray(places),))


@composite
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Grids of coordinates from 0-d or 1-d tensors: with "ij" the first varies along the first dimension, with "xy" along the second.

    Without `indexing`, "ij" is used with PyTorch's warning.
    """
    if indexing is None:
        warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
        indexing = "ij"
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    must_be_tensors(tensors)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(t.ndim > 1 for t in tensors):
        raise RuntimeError("meshgrid: Expected 0D or 1D tensor in the tensor list")
    if len({t.dtype for t in tensors}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    shape, n = tuple(t.numel() for t in tensors), len(tensors)
    grids = [expand(reshape(t, (1,) * i + (t.numel(),) + (1,) * (n - i - 1)), shape) for i, t in enumerate(tensors)]
    return tuple(grids if indexing == "ij" or n < 2 else [permute(g, (1, 0, *range(2, n))) for g in grids])


@composite
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element from each 1-d tensor, as rows."""
    must_be_tensors(tensors)
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(g, (g.numel(),)) for g in meshgrid(*tensors, indexing="ij")], 1)


@composite
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a 1-d tensor, as rows."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_zeros(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = numpy.array(list(choose(range(input.numel()), r)), numpy.int64).reshape(-1, r)
    return input[Tensor._wrap(rows)]


@composite
def block_diag(*tensors: Tensor) -> Tensor:
    """Block-diagonal matrix of the given matrices, vectors (as rows) and scalars."""
    must_be_tensors(tensors)
    for i, t in enumerate(tensors):
        if t.ndim > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.ndim} dimensions")
    if not tensors:
        return Tensor._wrap(numpy.empty((1, 0), dtypes.default.numpy))
    blocks = [atleast_2d(t) for t in tensors]
    width, at, rows = sum(b.shape[1] for b in blocks), 0, []
    for b in blocks:
        rows.append(constant_pad(b, (at, width - at - b.shape[1])))
        at += b.shape[1]
    return cat(rows, 0)
