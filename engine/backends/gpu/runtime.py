"""GPU management through CuPy: the current device, device properties, streams, events, and peak memory."""

from __future__ import annotations

from typing import Any

import cupy

_held: dict[int, int] = {}  # GPU index -> the largest observed size of its memory pool, in bytes
_counters: dict[int, _Counter] = {}


class _Counter(cupy.cuda.MemoryHook):
    """Counts the bytes in use on one GPU as this thread allocates and frees them."""

    name = "engine.peak"

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.start()

    def start(self) -> None:
        with cupy.cuda.Device(self.index):
            self.used = self.most = int(cupy.get_default_memory_pool().used_bytes())

    def malloc_postprocess(self, **told: Any) -> None:
        if told["device_id"] == self.index:
            self.used += told["mem_size"]
            self.most = max(self.most, self.used)

    def free_postprocess(self, **told: Any) -> None:
        if told["device_id"] == self.index:
            self.used -= told["mem_size"]


# -- devices -----------------------------------------------------------------------------------------------------------------


def use(index: int) -> None:
    """Make a GPU the current one of this thread, on which it creates arrays. RuntimeError if there is no such GPU."""
    n = cupy.cuda.runtime.getDeviceCount()
    if not 0 <= index < n:
        raise RuntimeError(f"CUDA error: invalid device ordinal {index}; there {'is' if n == 1 else 'are'} {n}")
    cupy.cuda.Device(index).use()


def properties(index: int) -> dict[str, Any]:
    """Return a GPU's name, memory in bytes, compute capability and sizes."""
    told = cupy.cuda.runtime.getDeviceProperties(index)
    name = told["name"]
    return {
        "name": name.decode() if isinstance(name, bytes) else str(name),
        "major": int(told["major"]),
        "minor": int(told["minor"]),
        "total_memory": int(told["totalGlobalMem"]),
        "multi_processor_count": int(told["multiProcessorCount"]),
        "warp_size": int(told["warpSize"]),
        "max_threads_per_multi_processor": int(told["maxThreadsPerMultiProcessor"]),
        "L2_cache_size": int(told["l2CacheSize"]),
        "is_integrated": int(told["integrated"]),
        "is_multi_gpu_board": int(told["isMultiGpuBoard"]),
    }


def can_access_peer(index: int, other: int) -> bool:
    """Whether one GPU can access the memory of another."""
    return bool(cupy.cuda.runtime.deviceCanAccessPeer(index, other))


def version() -> str:
    """Return the version of the CUDA runtime, such as "12.8"."""
    number = int(cupy.cuda.runtime.runtimeGetVersion())
    return f"{number // 1000}.{number % 1000 // 10}"


# -- memory ------------------------------------------------------------------------------------------------------------------


def whole_memory(index: int) -> tuple[int, int]:
    """Return the free and total memory of a GPU in bytes."""
    with cupy.cuda.Device(index):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def limit(index: int, fraction: float) -> None:
    """Limit the memory pool to a fraction of the GPU's memory."""
    with cupy.cuda.Device(index):
        cupy.get_default_memory_pool().set_limit(fraction=fraction)


def note(index: int) -> int:
    """Observe the size of the memory pool and return the largest size observed, in bytes. The pool grows until it is emptied."""
    with cupy.cuda.Device(index):
        held = int(cupy.get_default_memory_pool().total_bytes())
    _held[index] = max(held, _held.get(index, 0))
    return _held[index]


peak_held = note


def peak_used(index: int) -> int:
    """Return the peak bytes in use since `reset_peaks`; before its first call, the peak size of the memory pool."""
    return _counters[index].most if index in _counters else note(index)


def reset_peaks(index: int) -> None:
    """Reset the peaks. The first call also starts counting this thread's allocations."""
    if index in _counters:
        _counters[index].start()
    else:
        _counters[index] = _Counter(index)
        _counters[index].__enter__()
    _held.pop(index, None)
    note(index)


# -- streams -----------------------------------------------------------------------------------------------------------------


def event(blocking: bool, disable_timing: bool) -> Any:
    """Create an event."""
    return cupy.cuda.Event(block=blocking, disable_timing=disable_timing)


def milliseconds(begin: Any, end: Any) -> float:
    """Return the GPU time in milliseconds between two events."""
    return float(cupy.cuda.get_elapsed_time(begin, end))


def stream(index: int, priority: int) -> Any:
    """Create a stream that does not wait for the default stream."""
    with cupy.cuda.Device(index):
        return cupy.cuda.Stream(non_blocking=True, priority=priority)


def current_stream() -> Any:
    """Return this thread's current stream."""
    return cupy.cuda.get_current_stream()


def default_stream() -> Any:
    """Return the default stream."""
    return cupy.cuda.Stream.null


def mark(msg: str) -> None:
    """Mark a point in time in NVIDIA's profilers."""
    cupy.cuda.nvtx.Mark(msg)


def range_push(msg: str) -> None:
    """Begin a range in NVIDIA's profilers."""
    cupy.cuda.nvtx.RangePush(msg)


def range_pop() -> None:
    """End the innermost range in NVIDIA's profilers."""
    cupy.cuda.nvtx.RangePop()
