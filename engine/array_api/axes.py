"""Axes as the standard gives them: one, several, none or all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor


def normal(axis: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """The axes, counted from the front; all for None. IndexError for one that is not there, ValueError for one given twice."""
    if axis is None:
        return tuple(range(ndim))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        if not -ndim <= a < ndim:
            raise IndexError(f"{name} {a} is out of range for an array of {ndim} dimensions")
    axes = tuple(a % ndim for a in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name} {axis} names a dimension twice")
    return axes


def reduced(op: Callable, x: Tensor, axis: Any, keepdims: bool, *options: Any, **named: Any) -> Tensor:
    """The op over these axes. Over none at all each element stands for itself: that is an axis of length 1 more, and over it."""
    axes = normal(axis, x.ndim)
    if not axes:
        return op(x.unsqueeze(-1), *options, dim=-1, **named)
    return op(x, *options, dim=axes, keepdim=keepdims, **named)
