"""`engine.cuda`: what PyTorch programs ask about GPUs. Everything answers, and says "none", where there is no GPU."""

from __future__ import annotations

from typing import Any

from . import devices
from .devices import cuda_available as is_available


def device_count() -> int:
    """How many GPUs can be used."""
    return devices.cuda().device_count() if is_available() else 0


def _index(device: Any = None) -> int:
    """The number of a GPU named as `None` (the current one), a number, a string or a device."""
    backend = devices.cuda()
    if device is None:
        return backend.current_device()
    index = devices.device(device).index
    return backend.current_device() if index is None else index


def current_device() -> int:
    """The number of the GPU that new CUDA tensors go to."""
    return _index()


def get_device_name(device: Any = None) -> str:
    """The GPU's name, such as "NVIDIA H200"."""
    return devices.cuda().device_name(_index(device))


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done all that was asked of it."""
    devices.cuda().synchronize(_index(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by arrays on the GPU; 0 without one."""
    return devices.cuda().memory_used(_index(device)) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that the pool holds on the GPU, in use or free; 0 without one."""
    return devices.cuda().memory_held(_index(device)) if is_available() else 0


def empty_cache() -> None:
    """Give the pool's free memory back to the GPU. Does nothing without one."""
    if is_available():
        devices.cuda().empty_cache()
