"""`engine.utils.dlpack`: tensors to and from other libraries, without a copy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

from .. import devices
from ..from_data import from_dlpack as _from_object
from ..from_data import from_numpy
from ..tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor's memory as a capsule, which can be taken up once."""
    return tensor.__dlpack__()


class _Capsule:
    """A capsule with the method by which NumPy asks for one; such capsules are of the CPU's memory."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _writable(array: numpy.ndarray) -> numpy.ndarray:
    """The array again, to be written to: a capsule does not say whether it may be, and NumPy then assumes that it may not."""
    if array.flags.writeable or not array.size:
        return array
    extent = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
    memory = (ctypes.c_char * extent).from_address(array.ctypes.data)
    memory.owner = array  # type: ignore[attr-defined]  # the memory lives as long as this
    return numpy.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of an object with `__dlpack__`, or of a capsule of the CPU's memory; TypeError for anything else.

    `copy=True` copies; `device` moves. A copy that `copy=False` forbids is a ValueError.
    """
    if hasattr(ext_tensor, "__dlpack__"):
        return _from_object(ext_tensor, device=device, copy=copy)
    if type(ext_tensor).__name__ != "PyCapsule":
        raise TypeError(f"from_dlpack: expected an object with __dlpack__ or a capsule, got {type(ext_tensor).__name__}")
    found = from_numpy(_writable(numpy.from_dlpack(_Capsule(ext_tensor))))
    if copy is False and device is not None and devices.device(device).type != "cpu":
        raise ValueError(f"from_dlpack: the memory is the CPU's, and without a copy the tensor cannot be on {device}")
    return found.to(device=device or "cpu", copy=bool(copy))
