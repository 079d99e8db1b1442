"""A sample's dimensions as the batch's, and arrays with or without the batch."""

from __future__ import annotations

from typing import Any

import numpy

from .array import Batched, space
from .namespace import Namespace


def whole(xp: Namespace, x: Any) -> Any:
    """The array with the level's batch in its first dimension."""
    if xp.mine(x):
        return x.whole()
    return space(x).broadcast_to(x, (xp.level.size, *x.shape))


def fixed(xp: Namespace, *arrays: Any) -> bool:
    """Whether none of these differs from sample to sample."""
    return not xp.mapped(arrays)


def axes_of(axis: Any, ndim: int) -> Any:
    """Axes of a sample as axes of the batch: one, or a tuple."""
    if axis is None:
        return tuple(range(1, ndim + 1))
    if not hasattr(axis, "__index__"):
        return tuple(axes_of(a, ndim) for a in axis)
    n = max(ndim, 1)
    if not -n <= axis < n:
        raise numpy.exceptions.AxisError(axis, ndim)
    return axis.__index__() % n + 1


def shared(xp: Namespace, x: Any) -> Any:
    """An array that all samples share, without the level's mark."""
    return x.inner if xp.mine(x) else x


def seen(xp: Namespace, x: Batched, inner: Any) -> Batched:
    """What is seen of `x`: it belongs to the same storage when the inner arrays do."""
    shares = _storage(inner) is _storage(x.inner)
    return xp.level.wrap(inner, (x.base if x.base is not None else x) if shares else None)


def _storage(array: Any) -> Any:
    base = array.base
    return base if isinstance(base, array.__class__) else array


def merged(inner: Any) -> Any:
    """(B, N, ...) as (B N, ...)."""
    return inner.reshape((inner.shape[0] * inner.shape[1], *inner.shape[2:]))


def parted(out: Any, size: int) -> Any:
    """(B N, ...) as (B, N, ...) again."""
    return out.reshape((size, out.shape[0] // size if size else 0, *out.shape[1:]))
