"""A GPU itself, through CuPy: which is current, what it can do, its streams and events, and how much memory was in use at most."""

from __future__ import annotations

from typing import Any

import cupy  # pyright: ignore[reportMissingImports]

_held: dict[int, int] = {}  # GPU -> the most bytes that its pool has been seen to hold
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
    """Put this thread's new arrays on a GPU. RuntimeError when there is no such GPU."""
    n = cupy.cuda.runtime.getDeviceCount()
    if not 0 <= index < n:
        raise RuntimeError(f"CUDA error: invalid device ordinal {index}; there {'is' if n == 1 else 'are'} {n}")
    cupy.cuda.Device(index).use()


def properties(index: int) -> dict[str, Any]:
    """Name, memory in bytes, compute capability and sizes of a GPU."""
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
    """Whether one GPU can read another's memory."""
    return bool(cupy.cuda.runtime.deviceCanAccessPeer(index, other))


def version() -> str:
    """CUDA's version, such as "12.8"."""
    number = int(cupy.cuda.runtime.runtimeGetVersion())
    return f"{number // 1000}.{number % 1000 // 10}"


# -- memory ------------------------------------------------------------------------------------------------------------------


def whole_memory(index: int) -> tuple[int, int]:
    """Free and total bytes of a GPU."""
    with cupy.cuda.Device(index):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


def limit(index: int, fraction: float) -> None:
    """Let the pool take at most a part of the GPU's memory."""
    with cupy.cuda.Device(index):
        cupy.get_default_memory_pool().set_limit(fraction=fraction)


def note(index: int) -> int:
    """Look how much the pool holds; the most that was ever seen. What it holds grows until it is emptied."""
    with cupy.cuda.Device(index):
        held = int(cupy.get_default_memory_pool().total_bytes())
    _held[index] = max(held, _held.get(index, 0))
    return _held[index]


peak_held = note


def peak_used(index: int) -> int:
    """The most bytes in use since `reset_peaks`; before, the most that the pool held."""
    return _counters[index].most if index in _counters else note(index)


def reset_peaks(index: int) -> None:
    """Count anew. The first time this begins to count what this thread allocates."""
    if index in _counters:
        _counters[index].start()
    else:
        _counters[index] = _Counter(index)
        _counters[index].__enter__()
    _held.pop(index, None)
    note(index)


# -- streams -----------------------------------------------------------------------------------------------------------------


def event(blocking: bool, disable_timing: bool) -> Any:
    """A new event."""
    return cupy.cuda.Event(block=blocking, disable_timing=disable_timing)


def milliseconds(begin: Any, end: Any) -> float:
    """How long the GPU took from one event to another."""
    return float(cupy.cuda.get_elapsed_time(begin, end))


def stream(index: int, priority: int) -> Any:
    """A new stream, which does not wait for the default one."""
    with cupy.cuda.Device(index):
        return cupy.cuda.Stream(non_blocking=True, priority=priority)


def current_stream() -> Any:
    """The stream of this thread."""
    return cupy.cuda.get_current_stream()


def default_stream() -> Any:
    """The stream that is there without one being made."""
    return cupy.cuda.Stream.null


def mark(msg: str) -> None:
    """Mark a moment in NVIDIA's profilers."""
    cupy.cuda.nvtx.Mark(msg)


def range_push(msg: str) -> None:
    """Begin a stretch of time in NVIDIA's profilers."""
    cupy.cuda.nvtx.RangePush(msg)


def range_pop() -> None:
    """End a stretch of time in NVIDIA's profilers."""
    cupy.cuda.nvtx.RangePop()
