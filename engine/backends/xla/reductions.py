"""Reductions, scans and sorting of traced arrays."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax import lax

from ..reference import _along
from .array import raw, wrap
from .namespace import OWN, of_arrays, rule, space


def _reduction(fn: Any) -> Any:
    def reduced(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = jnp.asarray(raw(x))
        axis = None if not x.ndim and axis != () else tuple(axis) if isinstance(axis, list) else axis
        out = fn(x, axis=axis, keepdims=keepdims, **({} if dtype is None else {"dtype": dtype}))
        return wrap(out.astype(x.dtype) if x.dtype == numpy.uint8 and out.dtype == bool else out)

    return reduced


for _name in ("sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin"):
    OWN[_name] = _reduction(getattr(jnp, _name))


@rule
def count_nonzero(x: Any, axis: Any = None) -> Any:
    return jnp.sum(x != 0, axis=axis, dtype=numpy.int64)


@rule
def var(x: Any, axis: Any = None, correction: Any = 0, keepdims: bool = False, ddof: Any = None) -> Any:
    correction = correction if ddof is None else ddof
    n = math.prod(x.shape[a] for a in (range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis))
    apart = x - jnp.mean(x, axis, keepdims=True)
    total = jnp.sum((apart * apart.conj()).real if apart.dtype.kind == "c" else apart * apart, axis, keepdims=keepdims)
    return total / (n - correction) if n > max(correction, 0) else jnp.where(total > 0, jnp.inf, jnp.nan).astype(total.dtype)


@of_arrays
def std(x: Any, axis: Any = None, correction: Any = 0, keepdims: bool = False) -> Any:
    return space.sqrt(space.var(x, axis, correction, keepdims))


@rule
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return jax.nn.logsumexp(x, axis=axis if x.ndim else None, keepdims=keepdims)


@rule
def softmax(x: Any, axis: int) -> Any:
    return jax.nn.softmax(x, axis) if x.ndim else jnp.ones_like(x)


@rule
def log_softmax(x: Any, axis: int) -> Any:
    return jax.nn.log_softmax(x, axis) if x.ndim else jnp.zeros_like(x)


@rule
def logcumsumexp(x: Any, axis: int) -> Any:
    return lax.cumlogsumexp(x, axis % x.ndim) if x.ndim else x


@rule
def cumsum(x: Any, axis: int = 0) -> Any:
    return jnp.cumsum(x, axis, dtype=_summed(x)) if x.ndim else x.astype(_summed(x))


@rule
def cumprod(x: Any, axis: int = 0) -> Any:
    return jnp.cumprod(x, axis, dtype=_summed(x)) if x.ndim else x.astype(_summed(x))


def _summed(x: Any) -> Any:
    """The dtype of a sum: integers are summed as int64, as in NumPy."""
    return numpy.empty(0, x.dtype).sum().dtype if x.dtype.kind in "biu" else x.dtype


@rule
def cummax(x: Any, axis: int = 0) -> Any:
    return lax.cummax(x, axis % x.ndim)


@rule
def cummin(x: Any, axis: int = 0) -> Any:
    return lax.cummin(x, axis % x.ndim)


@rule
def vector_norm(x: Any, ord: Any = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    if ord == 2:
        square = jnp.square(jnp.abs(x)) if x.dtype.kind == "c" else x * x
        return jnp.sqrt(jnp.sum(square, axis=axis, keepdims=keepdims))
    return jnp.linalg.vector_norm(x, ord=ord, axis=axis, keepdims=keepdims)


@rule
def histogram(x: Any, bins: int, low: Any, high: Any) -> Any:
    if low == high and x.size:
        low, high = x.min(), x.max()
    low, high = (jnp.asarray(a).astype(x.dtype) for a in (low, high))
    low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    places = jnp.minimum((x - low) * x.dtype.type(bins) / (high - low), bins - 1)
    places = jnp.where((x >= low) & (x <= high), places, bins).astype(numpy.int64)  # one more bin for those outside
    return jnp.zeros(bins + 1, numpy.int64).at[places.reshape(-1)].add(1)[:-1].astype(x.dtype)


# -- order: a nan counts as the largest ----------------------------------------------------------------------------------------


@rule
def argsort(x: Any, axis: int = -1, kind: Any = None) -> Any:
    return jnp.argsort(x, axis, stable=True)


@of_arrays
def topk(x: Any, k: int, dim: int, largest: bool) -> Any:
    values, order = space.sorted(x, dim, largest, False)
    if not x.ndim:
        return (values, order) if k else (values.reshape(1)[:0], order.reshape(1)[:0])
    first = (slice(None),) * (dim % x.ndim) + (slice(0, k),)
    return values[first].copy(), order[first].copy()


@_along
def _mode(x: Any, axis: int) -> Any:
    order = space.argsort(x, axis)
    ranks = jnp.moveaxis(space.take_along_axis(x, order, axis).value, axis, -1)
    new, at = jnp.ones(ranks.shape, bool).at[..., 1:].set(ranks[..., 1:] != ranks[..., :-1]), jnp.arange(ranks.shape[-1])
    run = at - lax.cummax(jnp.where(new, at, 0), ranks.ndim - 1)  # how many equal elements precede each
    indices = space.take_along_axis(order, wrap(jnp.expand_dims(run.argmax(-1), axis)), axis)
    return space.take_along_axis(x, indices, axis), indices


OWN["mode"] = _mode
