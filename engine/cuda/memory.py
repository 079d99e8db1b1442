"""GPU memory statistics from CuPy's pool; usage is 0 without a GPU."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..core import devices
from ..core.devices import cuda_available as is_available
from .device import index_of, runtime


def empty_cache() -> None:
    """Return the pool's free memory to the GPU. A no-op without a GPU."""
    if is_available():
        backend = devices.cuda()
        for index in range(backend.device_count()):
            runtime().note(index)
        backend.empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Return the bytes used by arrays on the GPU; 0 without a GPU."""
    return devices.cuda().memory_used(index_of(device)) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Return the bytes held by the pool on the GPU, used or free; 0 without a GPU."""
    return devices.cuda().memory_held(index_of(device)) if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """Return the peak of `memory_allocated` since `reset_peak_memory_stats`; 0 without a GPU.

    Counting has a cost and only starts with that call, for the allocations of the calling thread. Before it, the result is the most
    that the pool has held, an upper bound.
    """
    return runtime().peak_used(index_of(device)) if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """Return the peak of `memory_reserved` since `reset_peak_memory_stats`, or since the start; 0 without a GPU."""
    return runtime().peak_held(index_of(device)) if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Reset the peaks of `max_memory_allocated` and `max_memory_reserved`. A no-op without a GPU."""
    if is_available():
        runtime().reset_peaks(index_of(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Do nothing: allocations are not counted."""


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return the statistics above under PyTorch's keys, such as "allocated_bytes.all.peak"; empty without a GPU."""
    if not is_available():
        return OrderedDict()
    used, held = (memory_allocated(device), max_memory_allocated(device)), (memory_reserved(device), max_memory_reserved(device))
    return OrderedDict(
        (f"{name}_bytes.all.{moment}", value)
        for name, pair in (("allocated", used), ("reserved", held))
        for moment, value in zip(("current", "peak"), pair, strict=True)
    )


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return a small table of the GPU's memory, in MiB."""
    rows = (
        ("Allocated memory", memory_allocated(device), max_memory_allocated(device)),
        ("Reserved memory", memory_reserved(device), max_memory_reserved(device)),
    )
    lines = [f"| {'Metric':<18} | {'Cur Usage':>14} | {'Peak Usage':>14} |"]
    lines += [f"| {name:<18} | {now / 2**20:>10.1f} MiB | {peak / 2**20:>10.1f} MiB |" for name, now, peak in rows]
    rule = "=" * len(lines[0])
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the GPU's free and total memory in bytes. Raises RuntimeError without a GPU."""
    return runtime().whole_memory(index_of(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit the pool to a fraction of the GPU's memory. Raises ValueError unless it is in [0, 1], RuntimeError without a GPU."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    runtime().limit(index_of(device), fraction)
