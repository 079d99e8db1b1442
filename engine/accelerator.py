"""`engine.accelerator`: the GPU, asked for without naming its kind. Where there is none, it says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import cuda, devices


def is_available() -> bool:
    """Whether there is a GPU that tensors can be put on."""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """`device("cuda")`; None without a GPU."""
    return devices.device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """How many GPUs can be used."""
    return cuda.device_count()


def current_device_index() -> int:
    """The number of the GPU that new tensors go to. RuntimeError without one."""
    return cuda.current_device()


current_device_idx = current_device_index


def set_device_index(device: Any) -> None:
    """Put new tensors on this GPU. RuntimeError without one."""
    cuda.set_device(device)


set_device_idx = set_device_index


@contextmanager
def device_index(device: int | None) -> Iterator[None]:
    """Inside, new tensors of a GPU go to this one; None changes nothing."""
    with cuda.device(device):
        yield


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done all that it was given. RuntimeError without one."""
    cuda.synchronize(device)


def current_stream(device: Any = None) -> cuda.Stream:
    """The stream that work is put into. RuntimeError without a GPU."""
    return cuda.current_stream(device)


def set_stream(stream: cuda.Stream) -> None:
    """Put work into this stream from now on."""
    cuda.set_stream(stream)


def empty_cache() -> None:
    """Give the pool's free memory back to the GPU. Does nothing without one."""
    cuda.empty_cache()


memory_allocated, max_memory_allocated = cuda.memory_allocated, cuda.max_memory_allocated
memory_reserved, max_memory_reserved = cuda.memory_reserved, cuda.max_memory_reserved
memory_stats, reset_peak_memory_stats = cuda.memory_stats, cuda.reset_peak_memory_stats
reset_accumulated_memory_stats, get_memory_info = cuda.reset_accumulated_memory_stats, cuda.mem_get_info
