"""Helpers for batching rules: a sample's axes as the batch's, and arrays with or without the batch dimension."""

from __future__ import annotations

from typing import Any

import numpy

from .array import Batched, space
from .namespace import Namespace


def whole(xp: Namespace, x: Any) -> Any:
    """Return the array with the level's batch in its first dimension."""
    if xp.mine(x):
        return x.whole()
    return space(x).broadcast_to(x, (xp.level.size, *x.shape))


def fixed(xp: Namespace, *arrays: Any) -> bool:
    """Whether none of these differs between samples."""
    return not xp.mapped(arrays)


def axes_of(axis: Any, ndim: int) -> Any:
    """Convert axes of a sample, one or a tuple, to axes of the batch; None means all. AxisError if one is out of range."""
    if axis is None:
        return tuple(range(1, ndim + 1))
    if not hasattr(axis, "__index__"):
        return tuple(axes_of(a, ndim) for a in axis)
    n = max(ndim, 1)
    if not -n <= axis < n:
        raise numpy.exceptions.AxisError(axis, ndim)
    return axis.__index__() % n + 1


def shared(xp: Namespace, x: Any) -> Any:
    """Return the inner array of one of this level, without a batch dimension if all samples share it; other arrays unchanged."""
    return x.inner if xp.mine(x) else x


def seen(xp: Namespace, x: Batched, inner: Any) -> Batched:
    """Wrap a view or copy of the inner array of `x`; it has the same storage as `x` if the inner arrays share theirs."""
    shares = _storage(inner) is _storage(x.inner)
    return xp.level.wrap(inner, (x.base if x.base is not None else x) if shares else None)


def _storage(array: Any) -> Any:
    base = array.base
    return base if isinstance(base, array.__class__) else array


def merged(inner: Any) -> Any:
    """Reshape (B, N, ...) to (B N, ...)."""
    return inner.reshape((inner.shape[0] * inner.shape[1], *inner.shape[2:]))


def parted(out: Any, size: int) -> Any:
    """Reshape (B N, ...) to (B, N, ...) for a batch of `size`."""
    return out.reshape((size, out.shape[0] // size if size else 0, *out.shape[1:]))
