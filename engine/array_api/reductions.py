"""Reductions, cumulative sums and products, and differences."""

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
    """Convert to the dtype of the sum, 64 bits for integers, and return the op's dtype arguments that keep it."""
    if dtype is None:
        dtype = x.dtype if x.dtype.rank != INT else engine.int64 if x.dtype.is_signed else engine.uint64
    return x if x.dtype is dtype else x.to(dtype), {"dtype": dtype} if dtype.rank == INT else {}


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along the axes are non-zero; True if there are none."""
    return reduced(engine.all, x.to(engine.bool), axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any element along the axes is non-zero; False if there are none."""
    return reduced(engine.any, x.to(engine.bool), axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Count the non-zero elements along the axes."""
    return reduced(engine.sum, x != 0, axis, keepdims)


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Maximum along the axes; NaN if any element is NaN."""
    return reduced(engine.amax, x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Mean along the axes."""
    return reduced(engine.mean, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Minimum along the axes; NaN if any element is NaN."""
    return reduced(engine.amin, x, axis, keepdims)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """Product along the axes; narrow integers are multiplied in 64 bits."""
    x, kept = _summed(x, dtype)
    for a in sorted(normal(axis, x.ndim), reverse=True):  # PyTorch reduces one at a time
        x = engine.prod(x, a, keepdims, **kept)
    return x


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Standard deviation along the axes, with the divisor n - correction."""
    return reduced(engine.std, x, axis, keepdims, correction=correction)


def sum(x: Tensor, /, *, axis: Any = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """Sum along the axes; narrow integers are summed in 64 bits."""
    x, kept = _summed(x, dtype)
    return reduced(engine.sum, x, axis, keepdims, **kept)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance along the axes, with the divisor n - correction."""
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
    """Cumulative products along an axis; `include_initial` prepends a 1."""
    return _running("cumulative_prod", engine.cumprod, 1, x, axis, dtype, include_initial)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None, include_initial: bool = False) -> Tensor:
    """Cumulative sums along an axis; `include_initial` prepends a 0."""
    return _running("cumulative_sum", engine.cumsum, 0, x, axis, dtype, include_initial)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """n-th differences along an axis, after adding `prepend` and `append`."""
    normal(axis, x.ndim)
    parts = alike(*[part for part in (prepend, x, append) if part is not None])
    return engine.diff(engine.cat(parts, axis) if len(parts) > 1 else x, n, axis)
