"""Searching, sorting, set and indexing functions of the standard."""

from __future__ import annotations

from typing import Any, NamedTuple

import engine

from ..core.tensor import Tensor
from .axes import normal
from .dtypes import alike, is_number


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first maximum along an axis, or in the flattened array."""
    normal(axis, x.ndim)
    return engine.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first minimum along an axis, or in the flattened array."""
    normal(axis, x.ndim)
    return engine.argmin(x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Indices of the non-zero elements, one array per dimension. Raises ValueError for a 0-D array."""
    if x.ndim == 0:
        raise ValueError("nonzero: an array without dimensions has no indices")
    return tuple(engine.nonzero(x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Insertion indices of `x2` into the sorted `x1`, before ("left") or after ("right") equal elements. `sorter` sorts `x1`."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    x1, x2 = alike(x1, x2)
    return engine.searchsorted(x1 if sorter is None else take(x1, sorter), x2.contiguous(), side=side)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Select elements of `x1` where the condition is true, else of `x2`."""
    return engine.where(condition, *((x1, x2) if is_number(x1) and is_number(x2) else alike(x1, x2)))


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is in `x2`, or is not with `invert`."""
    x1, x2 = alike(x1, x2)
    return engine.isin(x1, x2, invert=invert)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that sort along an axis, NaN as the largest; `stable` keeps the order of equal elements."""
    return engine.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort the elements along an axis, NaN as the largest."""
    return engine.sort(x, dim=axis, descending=descending, stable=stable).values


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Elements at the indices along an axis, optional for 1-D arrays; negative indices count from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: an array of {x.ndim} dimensions needs an axis")
        axis = 0
    (axis,) = normal(axis, x.ndim)
    return engine.index_select(x, axis, _counted(indices, x.shape[axis]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements at the indices along an axis, matched along the other axes; negative indices count from the end."""
    (axis,) = normal(axis, x.ndim)
    return engine.take_along_dim(x, _counted(indices, x.shape[axis]), axis)


def _counted(indices: Tensor, length: int) -> Tensor:
    """Convert indices to non-negative int64."""
    indices = indices.to(engine.int64)
    return engine.where(indices < 0, indices + length, indices)


class UniqueAllResult(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAllResult:
    """Sorted unique elements, with the index of each first occurrence, the inverse indices and the counts.

    Each NaN is unique, while 0.0 and -0.0 are equal.
    """
    flat = x.reshape(-1)
    if x.is_complex():  # by real part, then by imaginary part
        order = engine.argsort(flat.imag, stable=True)
        order = order[engine.argsort(flat.real[order], stable=True)]
    else:
        order = engine.argsort(flat, stable=True)
    ordered = flat[order]
    first = engine.ones_like(order, dtype=engine.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = engine.nonzero(first).reshape(-1)
    inverse = engine.empty_like(order)
    inverse[order] = engine.cumsum(first, 0) - 1
    ends = engine.full((1,), flat.shape[0], dtype=engine.int64, device=x.device)
    counts = engine.diff(engine.cat([starts, ends]))
    return UniqueAllResult(ordered[starts], order[starts], inverse.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """Unique elements and their counts; see `unique_all`."""
    found = unique_all(x)
    return UniqueCountsResult(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """Unique elements and inverse indices; see `unique_all`."""
    found = unique_all(x)
    return UniqueInverseResult(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Unique elements; see `unique_all`."""
    return unique_all(x).values
