"""`engine.utils.dlpack`: exchange tensors with other libraries without a copy."""

from __future__ import annotations

from typing import Any

from ..core.devices import DLDeviceType
from ..core.from_data import from_dlpack
from ..core.tensor import Tensor

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule of the tensor's memory, which can be consumed once."""
    return tensor.__dlpack__()
