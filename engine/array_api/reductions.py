"""Statistics and truth along axes: reductions, running sums, differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import engine

from ..base.dtypes import INT
from ..base.dtypes import dtype as Dtype
from ..core.tensor import Tensor
from .axes import normal, reduced
from .dtypes import alike


def _summed(x: Tensor, dtype: Dtype | None) -> tuple[Tensor, dict[str, Dtype]]:
    """The elements in the dtype that they are summed in, short integers in the longest of their kind, and how ops are told to keep it."""
    if dtype is None:
        dtype = x.dtype if x.dtype.rank != INT else engine.int64 if x.dtype.is_signed else engine.uint64
    return x if x.dtype is dtype else x.to(dtype), {"dtype": dtype} if dtype.rank == INT else {}


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along the axes are true, or not 0; True of none."""
    return reduced(engine.all, x.to(engine.bool), axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether an element along the axes is true, or not 0; False of none."""
    return reduced(engine.any, x.to(engine.bool), axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements along the axes are not 0."""
    return reduced(engine.sum, x != 0, axis, keepdims)


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element along the axes; NaN where there is one."""
    return reduced(engine.amax, x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the elements along the axes."""
    return reduced(engine.mean, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element along the axes; NaN where there is one."""
    return reduced(engine.amin, x, axis, keepdims)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """The product of the elements along the axes; of short integers in 64 bits."""
    x, kept = _summed(x, dtype)
    for a in sorted(normal(axis, x.ndim), reverse=True):  # PyTorch's takes one at a time
        x = engine.prod(x, a, keepdims, **kept)
    return x


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along the axes, of n elements with the divisor n - correction."""
    return reduced(engine.std, x, axis, keepdims, correction=correction)


def sum(x: Tensor, /, *, axis: Any = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements along the axes; of short integers in 64 bits."""
    x, kept = _summed(x, dtype)
    return reduced(engine.sum, x, axis, keepdims, **kept)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance along the axes, of n elements with the divisor n - correction."""
    return reduced(engine.var, x, axis, keepdims, correction=correction)


def _running(name: str, op: Callable, first: int, x: Tensor, axis: int | None, dtype: Dtype | None, include_initial: bool) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: an array of {x.ndim} dimensions needs an axis")
        axis = 0
    (axis,) = normal(axis, x.ndim)
    x, kept = _summed(x, dtype)
    out = op(x, axis, **kept)
    if not include_initial:
        return out
    start = engine.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), first, dtype=x.dtype, device=x.device)
    return engine.cat([start, out], axis)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None, include_initial: bool = False) -> Tensor:
    """The products of the first elements along an axis, as many; `include_initial`: that of none, 1, in front."""
    return _running("cumulative_prod", engine.cumprod, 1, x, axis, dtype, include_initial)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None, include_initial: bool = False) -> Tensor:
    """The sums of the first elements along an axis, as many; `include_initial`: that of none, 0, in front."""
    return _running("cumulative_sum", engine.cumsum, 0, x, axis, dtype, include_initial)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """The differences of neighbours along an axis, `n` times over; `prepend` and `append` are put around the elements first."""
    normal(axis, x.ndim)
    parts = alike(*[part for part in (prepend, x, append) if part is not None])
    return engine.diff(engine.cat(parts, axis) if len(parts) > 1 else x, n, axis)
