"""The GPU's memory, as CuPy's pool has it. Without a GPU everything is 0."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..core import devices
from ..core.devices import cuda_available as is_available
from .device import index_of, runtime


def empty_cache() -> None:
    """Give the pool's free memory back to the GPU. Does nothing without one."""
    if is_available():
        backend = devices.cuda()
        for index in range(backend.device_count()):
            runtime().note(index)
        backend.empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by arrays on the GPU; 0 without one."""
    return devices.cuda().memory_used(index_of(device)) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that the pool holds on the GPU, in use or free; 0 without one."""
    return devices.cuda().memory_held(index_of(device)) if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use at once since `reset_peak_memory_stats`; 0 without a GPU.

    Counting costs something, so it begins with that call; without it this is the most that the pool has held, which is an upper bound.
    Only what the thread that called `reset_peak_memory_stats` allocates is counted.
    """
    return runtime().peak_used(index_of(device)) if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the pool has held since `reset_peak_memory_stats`, else since the start; 0 without a GPU."""
    return runtime().peak_held(index_of(device)) if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin to count anew what `max_memory_allocated` and `max_memory_reserved` tell. Does nothing without a GPU."""
    if is_available():
        runtime().reset_peaks(index_of(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Begin to count allocations anew: they are not counted."""


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The numbers above under PyTorch's keys, such as "allocated_bytes.all.peak"; empty without a GPU."""
    if not is_available():
        return OrderedDict()
    used, held = (memory_allocated(device), max_memory_allocated(device)), (memory_reserved(device), max_memory_reserved(device))
    return OrderedDict(
        (f"{name}_bytes.all.{moment}", value)
        for name, pair in (("allocated", used), ("reserved", held))
        for moment, value in zip(("current", "peak"), pair, strict=True)
    )


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A small table of the GPU's memory, in MiB."""
    rows = (
        ("Allocated memory", memory_allocated(device), max_memory_allocated(device)),
        ("Reserved memory", memory_reserved(device), max_memory_reserved(device)),
    )
    lines = [f"| {'Metric':<18} | {'Cur Usage':>14} | {'Peak Usage':>14} |"]
    lines += [f"| {name:<18} | {now / 2**20:>10.1f} MiB | {peak / 2**20:>10.1f} MiB |" for name, now, peak in rows]
    rule = "=" * len(lines[0])
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the whole GPU. RuntimeError without one."""
    return runtime().whole_memory(index_of(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the pool take at most this part of the GPU's memory. ValueError unless it is from 0 to 1; RuntimeError without a GPU."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    runtime().limit(index_of(device), fraction)
