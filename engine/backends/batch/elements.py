"""Batching rules for elementwise functions, reductions, scans and sorting."""

from __future__ import annotations

from typing import Any

from ..indexing import fill_value
from ..primitives import of_kind
from .array import space
from .namespace import Namespace, apply, rule
from .sample import axes_of

# -- elementwise ---------------------------------------------------------------------------------------------

LIKE = ["empty_like", "full_like", "ones_like", "zeros_like", "astype", "ascontiguousarray", "copy"]  # same shape as the input


@rule(*of_kind("elementwise"), *LIKE)
def elementwise(name: str, xp: Namespace, *args: Any, **kwargs: Any) -> Any:
    return xp.elementwise(lambda *inner, **more: apply(name, inner, more), args, kwargs)


@rule("masked_fill")
def masked_fill(xp: Namespace, x: Any, mask: Any, value: Any) -> Any:
    return xp.where(mask, fill_value(value, x.dtype), x)


@rule("asarray")
def asarray(xp: Namespace, x: Any, dtype: Any = None) -> Any:
    return x if dtype is None else xp.astype(x, dtype)


@rule("new_zeros")
def new_zeros(xp: Namespace, beside: Any, shape: tuple, dtype: Any = None) -> Any:
    return xp.level.same(space(beside.inner).new_zeros(beside.inner, shape, dtype))


# -- reductions and scans ------------------------------------------------------------------------------------


@rule("all", "any", "count_nonzero", "max", "mean", "min", "prod", "sum")
def reduced(name: str, xp: Namespace, x: Any, axis: Any = None, keepdims: bool = False, **more: Any) -> Any:
    if x.ndim == 0:
        return xp.level.wrap(apply(name, (x.inner.reshape(-1, 1), 1), more))
    if keepdims:
        more["keepdims"] = True
    return xp.level.wrap(apply(name, (x.inner, axes_of(axis, x.ndim)), more))


@rule("logsumexp")
def logsumexp(xp: Namespace, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return reduced("logsumexp", xp, x, axis, keepdims)


@rule("std", "var")
def spread(name: str, xp: Namespace, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    if x.ndim == 0:
        return xp.level.wrap(apply(name, (x.inner.reshape(-1, 1), 1, correction), {}))
    return xp.level.wrap(apply(name, (x.inner, axes_of(axis, x.ndim), correction, keepdims), {}))


@rule("vector_norm")
def vector_norm(xp: Namespace, x: Any, ord: float = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    if x.ndim == 0:
        return xp.level.wrap(space(x.inner).vector_norm(x.inner.reshape(-1, 1), ord, 1))
    return xp.level.wrap(space(x.inner).vector_norm(x.inner, ord, axes_of(axis, x.ndim), keepdims))


@rule("argmax", "argmin")
def argmax(name: str, xp: Namespace, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    inner, ndim = x.inner, x.ndim
    if axis is None or ndim == 0:
        found = apply(name, (inner.reshape(inner.shape[0], -1), 1), {})
        return xp.level.wrap(found.reshape((-1, *(1,) * ndim)) if keepdims else found)
    return xp.level.wrap(apply(name, (inner, axes_of(axis, ndim), keepdims), {}))


@rule("cumprod", "cumsum", "logcumsumexp", "softmax", "log_softmax", "cumextreme", "mode", "ranked")
def along(name: str, xp: Namespace, x: Any, axis: int, *rest: Any) -> Any:
    inner = x.inner if x.ndim else x.inner.reshape(-1, 1)
    found = apply(name, (inner, axes_of(axis, x.ndim), *rest), {})
    shaped = (lambda a: a) if x.ndim else (lambda a: a.reshape(-1))
    return tuple(xp.level.wrap(shaped(f)) for f in found) if isinstance(found, tuple) else xp.level.wrap(shaped(found))


@rule("sorted")
def sorted_(xp: Namespace, x: Any, dim: int, descending: bool, stable: bool) -> tuple:
    return along("sorted", xp, x, dim, descending, stable)


@rule("topk")
def topk(xp: Namespace, x: Any, k: int, dim: int, largest: bool) -> tuple:
    if x.ndim == 0:
        return xp.each(lambda one: apply("topk", (one, k, dim, largest), {}), (x,), {})
    return tuple(map(xp.level.wrap, apply("topk", (x.inner, k, axes_of(dim, x.ndim), largest), {})))


@rule("argsort", "sort")
def argsort(name: str, xp: Namespace, x: Any, axis: int = -1, **more: Any) -> Any:
    return xp.level.wrap(apply(name, (x.inner, axes_of(axis, x.ndim)), more))
