"""Batching rules for indexing: reading and writing elements at indices."""

from __future__ import annotations

from typing import Any

import numpy

from .array import Batched, changed, space
from .namespace import Namespace, apply, rule
from .sample import axes_of, seen, shared, whole


def _full(index: Any, ndim: int) -> tuple:
    """Return the index as a tuple, with a full slice for the batch dimension in front."""
    return (slice(None), *(index if isinstance(index, tuple) else (index,)))


def _places(xp: Namespace, index: Any) -> tuple | None:
    """Return an index that starts with integer arrays, with the sample number in front, or None for any other index."""
    items = index if isinstance(index, tuple) else (index,)
    arrays = [i for i in items if hasattr(i, "dtype")]
    lead = len(arrays)
    if any(not hasattr(i, "dtype") for i in items[:lead]) or any(a.dtype.kind not in "iu" for a in arrays):
        return None
    if any(i is not Ellipsis and i != slice(None) for i in items[lead:]):
        return None
    rank = max(a.ndim for a in arrays)
    inner = xp.align(tuple(arrays)) if rank else tuple(shared(xp, a) for a in arrays)
    number = space(inner).arange(xp.level.size).reshape((-1, *(1,) * rank))
    return (number, *inner)


def _separated(index: tuple) -> int:
    """Return how many dimensions NumPy puts in front of the result because the index arrays are not adjacent; 0 if they are."""
    at = [i for i, item in enumerate(index) if hasattr(item, "dtype")]
    if not at or at == list(range(at[0], at[-1] + 1)):
        return 0
    return numpy.broadcast_shapes(*[index[i].shape for i in at if index[i].dtype.kind in "iu"]).__len__()


@rule("getitem")
def getitem(xp: Namespace, x: Any, index: Any) -> Any:
    if xp.mapped(index):
        places = _places(xp, index)
        if places is None:
            return xp.each(lambda one, at: apply("getitem", (one, at), {}), (x, index), {})
        return xp.level.wrap(apply("getitem", (whole(xp, x), places), {}))
    index = _full(plain_of(xp, index), x.ndim)
    out = x.inner[index]
    lead = _separated(index)
    if lead:
        out = space(out).moveaxis(out, lead, 0)
    return seen(xp, x, out)


def plain_of(xp: Namespace, index: Any) -> Any:
    return changed(index, lambda b: b.inner if b.level is xp.level else b)


@rule("setitem")
def setitem(xp: Namespace, x: Batched, index: Any, value: Any) -> None:
    """`x[index] = value` for every sample, in place."""
    if xp.mapped(index):
        places = _places(xp, index)
        if places is None:
            for i in range(xp.level.size):
                one = changed((index, value), lambda b, i=i: b.sample(i) if b.level is xp.level else b)
                x.inner[i, ...][one[0]] = one[1]
            return
        x.inner[places] = _fitted(xp, value, x.inner[places].ndim - 1)
        return
    index = _full(plain_of(xp, index), x.ndim)
    lead = _separated(index)
    target = x.inner[index]
    value = _fitted(xp, value, target.ndim - 1)
    if lead and xp.mapped(value):
        value = space(value).moveaxis(value, 0, lead)
    x.inner[index] = value


def _fitted(xp: Namespace, value: Any, rank: int) -> Any:
    if not xp.mine(value) or value.alike:
        return shared(xp, value)
    inner = value.inner
    while inner.ndim - 1 > rank and inner.shape[1] == 1:
        inner = inner[:, 0]
    return inner.reshape((inner.shape[0], *(1,) * (rank - inner.ndim + 1), *inner.shape[1:]))


@rule("put")
def put(xp: Namespace, x: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
    if not xp.mapped(index) and not _separated(index if isinstance(index, tuple) else (index,)):
        index = _full(plain_of(xp, index), x.ndim)
        inner = whole(xp, x)
        target = inner[index]
        return xp.level.wrap(space(inner).put(inner, index, _fitted(xp, value, target.ndim - 1), accumulate))
    return xp.each(lambda a, i, v: apply("put", (a, i, v, accumulate), {}), (x, index, value), {})


@rule("put_zeros")
def put_zeros(xp: Namespace, value: Any, shape: tuple, index: Any) -> Any:
    if xp.mapped(index):
        places = _places(xp, index)
        if places is not None:
            return xp.level.wrap(apply("put_zeros", (whole(xp, value), (xp.level.size, *shape), places), {}))
        return xp.each(lambda v, i: apply("put_zeros", (v, shape, i), {}), (value, index), {})
    full = _full(plain_of(xp, index), len(shape))
    inner, lead = value.inner, _separated(full)
    if lead:
        inner = space(inner).moveaxis(inner, 0, lead)
    return xp.level.wrap(apply("put_zeros", (inner, (xp.level.size, *shape), full), {}))


@rule("index_select")
def index_select(xp: Namespace, x: Any, dim: int, index: Any) -> Any:
    if xp.mapped(index) or x.ndim == 0:
        return xp.each(lambda a, i: apply("index_select", (a, dim, i), {}), (x, index), {})
    return xp.level.wrap(apply("index_select", (x.inner, axes_of(dim, x.ndim), shared(xp, index)), {}))


@rule("gather", "scatter", "scatter_add", "scatter_prod", "scatter_extreme")
def by_index(name: str, xp: Namespace, x: Any, dim: int, index: Any, *rest: Any) -> Any:
    arrays = [a for a in (x, index, *rest) if hasattr(a, "ndim")]
    if any(a.ndim == 0 for a in arrays) or len({a.ndim for a in arrays}) > 1:
        return xp.each(lambda a, i, *r: apply(name, (a, dim, i, *r), {}), (x, index, *rest), {})
    more = tuple(whole(xp, r) if hasattr(r, "ndim") else r for r in rest)
    return xp.level.wrap(apply(name, (whole(xp, x), axes_of(dim, x.ndim), whole(xp, index), *more), {}))


@rule("take_along_axis")
def take_alongaxes_of(xp: Namespace, x: Any, indices: Any, axis: int) -> Any:
    return xp.level.wrap(apply("take_along_axis", (whole(xp, x), whole(xp, indices), axes_of(axis, x.ndim)), {}))


@rule("rows")
def rows(xp: Namespace, weight: Any, index: Any) -> Any:
    if xp.mapped(weight):
        return xp.each(lambda w, i: apply("rows", (w, i), {}), (weight, index), {})
    return xp.level.wrap(apply("rows", (shared(xp, weight), index.inner), {}))


@rule("strided_view")
def strided_view(xp: Namespace, x: Any, size: tuple, stride: tuple, offset: int) -> Any:
    """Run sample by sample, each on a copy with its own storage."""
    return xp.each(lambda one: apply("strided_view", (one.copy(), size, stride, offset), {}), (x,), {})


@rule("read_through")
def read_through(xp: Namespace, x: Any, path: tuple) -> Any:
    for op, attrs in path:
        x = op.forward(xp, x, **attrs)
    return x


@rule("write_through")
def write_through(xp: Namespace, x: Any, value: Any, path: tuple) -> Any:
    out = xp.level.wrap(whole(xp, x).copy())
    part = read_through(xp, out, path)
    if part.base is not out and part is not out:
        return xp.each(lambda a, v: apply("write_through", (a, v, path), {}), (x, value), {})
    part[...] = value
    return out
