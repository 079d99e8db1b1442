"""Elements of traced arrays at an index, read or written. Out of range, an index reads nan (an integer: the least) and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy

from ..indexing import covered
from .array import cast, raw, wrap, written
from .namespace import OWN, rule


def _read(x: Any, index: Any) -> Any:
    """`x[index]` for an index that must not be negative."""
    return jnp.asarray(x).at[index].get(mode="fill", wrap_negative_indices=False)


# -- embedding ---------------------------------------------------------------------------------------------------------------


@rule
def rows(weight: Any, index: Any) -> Any:
    return _read(weight, index)


@rule
def read_rows(weight: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    out = jnp.asarray(weight)[index]
    if scale:
        out = out / _frequency(index, count, out.dtype)
    return out if padding_idx is None else jnp.where((index == padding_idx)[..., None], 0, out)


@rule
def add_rows(value: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    if scale:
        value = value / _frequency(index, count, value.dtype)
    if padding_idx is not None:
        value = jnp.where((index == padding_idx)[..., None], 0, value)
    d = value.shape[-1]
    return jnp.zeros((count, d), value.dtype).at[index.reshape(-1)].add(value.reshape(-1, d))


def _frequency(index: Any, count: int, dtype: Any) -> Any:
    return jnp.zeros(count, dtype).at[index.reshape(-1)].add(1)[index][..., None]


# -- any index -----------------------------------------------------------------------------------------------------------------


@rule
def take(x: Any, index: Any, axis: Any = None) -> Any:
    return jnp.take(x, jnp.asarray(index), axis=axis)


@rule
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    return jnp.take_along_axis(x, indices, axis)


@rule
def put(x: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
    return written(x, index, value, "add" if accumulate else "set")


@rule
def put_zeros(value: Any, shape: tuple, index: Any) -> Any:
    return written(jnp.zeros(shape, value.dtype), index, value, "add")


@rule
def copied(x: Any, src: Any) -> Any:
    return jnp.broadcast_to(cast(jnp.asarray(src), x.dtype), x.shape)


# -- along a dimension ---------------------------------------------------------------------------------------------------------


def _grid(dim: int, index: Any) -> tuple:
    """The full index for an index array along a dimension."""
    n = index.ndim
    places = [numpy.arange(m).reshape((-1,) + (1,) * (n - d - 1)) for d, m in enumerate(index.shape)]
    places[dim % n] = index
    return tuple(places)


def _slices(x: Any, dim: int, index: Any) -> tuple:
    return (slice(None),) * (dim % max(x.ndim, 1)) + (index.reshape(-1),)


@rule
def gather(x: Any, dim: int, index: Any) -> Any:
    if not index.size:
        return jnp.zeros(index.shape, x.dtype)
    return _read(jnp.atleast_1d(x), _grid(dim, jnp.atleast_1d(index))).reshape(index.shape)


def _scattered(name: str) -> Callable:
    def scatter(x: Any, dim: int, index: Any, src: Any) -> Any:
        x, index, src = map(raw, (x, index, src))
        if not index.size:
            return wrap(x)
        src = covered(src, index)
        src = src.reshape(index.shape or (1,)) if getattr(src, "ndim", -1) == index.ndim else src
        at = jnp.atleast_1d(x).at[_grid(dim, jnp.atleast_1d(index))]
        return wrap(getattr(at, name)(cast(jnp.asarray(src), x.dtype), wrap_negative_indices=False).reshape(x.shape))

    return scatter


OWN |= {"scatter": _scattered("set"), "scatter_add": _scattered("add"), "scatter_prod": _scattered("multiply")}
_MOST, _LEAST = _scattered("max"), _scattered("min")
OWN["scatter_extreme"] = lambda x, dim, index, src, reduce: (_MOST if reduce == "amax" else _LEAST)(x, dim, index, src)


@rule
def index_select(x: Any, dim: int, index: Any) -> Any:
    return _read(jnp.atleast_1d(x), _slices(x, dim, index)).reshape(
        () if not x.ndim else (*x.shape[: dim % x.ndim], index.size, *x.shape[dim % x.ndim + 1 :])
    )


@rule
def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    source = cast(jnp.asarray(source if isinstance(alpha, int) and alpha == 1 else source * alpha), x.dtype)
    return jnp.atleast_1d(x).at[_slices(x, dim, index)].add(source, wrap_negative_indices=False).reshape(x.shape)


@rule
def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    source = cast(jnp.asarray(source), x.dtype)
    return jnp.atleast_1d(x).at[_slices(x, dim, index)].set(source, wrap_negative_indices=False).reshape(x.shape)


@rule
def flat_scatter(g: Any, index: Any, size: tuple) -> Any:
    lead = g.shape[: g.ndim - len(size)]
    rows, inner = int(numpy.prod(lead)), int(numpy.prod(size))
    at = numpy.arange(rows)[:, None], index.reshape(rows, -1)
    return jnp.zeros((rows, inner), g.dtype).at[at].add(g.reshape(rows, -1), wrap_negative_indices=False).reshape(*lead, *size)
