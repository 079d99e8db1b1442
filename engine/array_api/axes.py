"""Normalize axis arguments: one, several, none or all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor


def normal(axis: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """Return non-negative axes; all for None. Raises IndexError if out of range, ValueError if repeated."""
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
    """Reduce over the axes. With an empty tuple, each element is reduced alone, over an added axis of length 1."""
    axes = normal(axis, x.ndim)
    if not axes:
        return op(x.unsqueeze(-1), *options, dim=-1, **named)
    return op(x, *options, dim=axes, keepdim=keepdims, **named)
