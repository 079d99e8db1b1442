"""Pinning: copies of batches in page-locked memory, which the GPU can read while the program continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import warn
from ..core import devices
from ..core.tensor import Tensor
from .collate import _like_mapping, _like_sequence

NO_GPU = "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used."


def possible() -> bool:
    """Whether there is a GPU to pin for; gives PyTorch's warning if not."""
    if devices.cuda_available():
        return True
    warn(NO_GPU)
    return False


def pinned(data: Any) -> Any:
    """Copy the CPU tensors of a nested structure into pinned memory; objects with a `pin_memory` method are replaced by its result.

    The copies keep their place in the structure, and a tensor that is pinned already is kept.
    """
    if isinstance(data, Tensor):
        return data if data.is_cuda else data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return _like_mapping(data, {k: pinned(v) for k, v in data.items()})
    if type(data) is tuple:
        return tuple(pinned(v) for v in data)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [pinned(v) for v in data])
    return data
