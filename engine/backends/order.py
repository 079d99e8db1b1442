"""Sorting, top-k, medians and modes, for NumPy and CuPy arrays. A nan counts as the largest."""

from __future__ import annotations

import math
from typing import Any

import numpy

from .reduction import _empty
from .reference import _along, _axis, module_of

__all__ = ["median_of_all", "mode", "ranked", "sorted", "topk"]


def sorted(x: Any, dim: int, descending: bool, stable: bool) -> tuple:
    """Return the elements in order along a dimension, and their indices; nan counts as the largest."""
    dim, lib = _axis(x, dim), module_of(x)
    if not x.ndim:
        return x.copy(), lib.zeros((), numpy.int64)
    if descending:
        places = lib.flip(x.shape[dim] - 1 - lib.argsort(lib.flip(x, dim), axis=dim, kind="stable"), dim)
    else:
        alike = stable or x.dtype.kind != "f" or x.shape[dim] <= 16  # PyTorch sorts so few by insertion, which is stable
        places = lib.argsort(x, axis=dim, kind="stable" if alike else None)
    return lib.take_along_axis(x, places, dim), lib.ascontiguousarray(places)


def topk(x: Any, k: int, dim: int, largest: bool) -> tuple:
    """Return the `k` largest or smallest elements along a dimension, in order, and their indices; ValueError if there are fewer."""
    dim, lib = _axis(x, dim), module_of(x)
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


@_along
def ranked(x: Any, axis: int, positions: Any) -> tuple:
    """Return the elements at the given positions of the sorted axis, and their original indices.

    "median": the lower of the two middle elements, or the first nan; "nanmedian": the lower median of the elements that are not nan.
    """
    lib, n = module_of(x), x.shape[axis]
    if not n:
        raise _empty(x, axis)
    order = lib.argsort(x, axis=axis, kind="stable")
    if isinstance(positions, str):
        nans = lib.sum(x != x, axis=axis, keepdims=True)
        at = (n - nans - 1) // 2 if positions == "nanmedian" else lib.where(nans > 0, n - nans, (n - 1) // 2)
        at = lib.maximum(at, 0)
    else:
        at = lib.asarray(positions).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    at = lib.broadcast_to(at, tuple(at.shape[a] if a == axis else s for a, s in enumerate(x.shape)))
    indices = lib.take_along_axis(order, at, axis)
    return lib.take_along_axis(x, indices, axis), indices


def median_of_all(x: Any, skip_nan: bool = False) -> Any:
    """Return the lower median of all elements, nan if there are none; with `skip_nan`, of those that are not nan."""
    if not x.size:
        return module_of(x).full((), math.nan, x.dtype)
    return ranked(x.reshape(-1), 0, "nanmedian" if skip_nan else "median")[0].reshape(())


@_along
def mode(x: Any, axis: int) -> tuple:
    """Return the most frequent value along an axis (the smallest if tied) and its last index; the axis is kept with length 1."""
    if not x.shape[axis]:
        raise _empty(x, axis)
    lib = module_of(x)
    order = lib.argsort(x, axis=axis, kind="stable")
    ranks = lib.moveaxis(lib.take_along_axis(x, order, axis), axis, -1)
    new = lib.ones(ranks.shape, bool)
    new[..., 1:] = ranks[..., 1:] != ranks[..., :-1]
    starts, runs = lib.flatnonzero(new), lib.zeros(ranks.shape, numpy.int64)  # the length of each run, at its start
    runs.reshape(-1)[starts] = lib.diff(lib.append(starts, new.size))
    best = lib.expand_dims(runs.argmax(-1) + runs.max(-1) - 1, axis)
    indices = lib.take_along_axis(order, best, axis)
    return lib.take_along_axis(x, indices, axis), indices
