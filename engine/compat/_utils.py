"""PyTorch's private helpers that programs import: flattening tensors, device indices and element sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import dtypes
from ..core.devices import device as torch_device
from ..core.tensor import Tensor
from ..ops.join import cat
from ..serialize import plain

__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors"]

globals().update(plain.of_utils)


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate the flattened tensors to one 1-D tensor; differentiable."""
    return cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Split a flat tensor into consecutive views with the shapes of `tensors`."""
    views, at = [], 0
    for t in tensors:
        views.append(flat.narrow(0, at, t.numel()).view(t.shape))
        at += t.numel()
    return tuple(views)


def _element_size(dtype: dtypes.dtype) -> int:
    """Return the size of an element in bytes."""
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return a GPU's index, or -1 for the CPU with `allow_cpu`. Raises ValueError without an index unless `optional`."""
    if isinstance(device, int):
        return device
    found = None if device is None else torch_device(device)
    if found is not None and found.type == "cpu":
        if not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        return -1
    if found is not None and found.index is not None:
        return found.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return 0
