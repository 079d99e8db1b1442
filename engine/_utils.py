"""PyTorch's private address of what programs take from it: many tensors as one vector, and views of a vector as many tensors."""

from __future__ import annotations

from collections.abc import Sequence

from .ops.join import cat
from .tensor import Tensor

__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All tensors one after the other, as one 1-d tensor, differentiable."""
    return cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a vector, cut in turn into the shapes of `tensors`."""
    views, at = [], 0
    for t in tensors:
        views.append(flat.narrow(0, at, t.numel()).view(t.shape))
        at += t.numel()
    return tuple(views)
