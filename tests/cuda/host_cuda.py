"""`cupy.cuda` without a GPU: memory, devices, streams and events of one imaginary GPU whose memory is the host's.

What is not defined here comes from the real `cupy.cuda`, which imports without a driver. Waiting for a stream or an event is recorded.
"""

from __future__ import annotations

import contextlib
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import cupy as real
import numpy
from syncs import record

UNIT = 512  # CuPy's pool hands out multiples of this many bytes, aligned to it
TOTAL = 1 << 34  # bytes of memory on the GPU
PROPERTIES = {
    "name": b"Stand-in", "major": 9, "minor": 0, "totalGlobalMem": TOTAL, "multiProcessorCount": 132, "warpSize": 32,
    "maxThreadsPerMultiProcessor": 2048, "maxThreadsPerBlock": 1024, "l2CacheSize": 1 << 26, "integrated": 0, "isMultiGpuBoard": 0,
    "sharedMemPerBlock": 49152,
}  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------------------------


class Memory:
    """A block of memory, filled with ones: a float that nothing has written is nan."""

    def __init__(self, size: int) -> None:
        whole = numpy.full(size + UNIT, 0xFF, numpy.uint8)
        start = -whole.ctypes.data % UNIT
        self.buffer, self.size, self.device_id = whole[start : start + size], size, 0
        self.ptr = self.buffer.ctypes.data
        self.device = Device(0)


class MemoryPointer:
    """A place in a block of memory."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id, self.device = mem, mem.ptr + offset, 0, mem.device

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    def __int__(self) -> int:
        return self.ptr

    def memset(self, value: int, size: int) -> None:
        at = self.ptr - self.mem.ptr
        self.mem.buffer[at : at + size] = value

    memset_async = memset


class MemoryPool:
    """Counts what is in use and what is held for reuse, and keeps to a limit as CuPy's pool does."""

    def __init__(self, allocator: Any = None) -> None:
        self._used = self._total = self._limit = 0

    def malloc(self, size: int) -> MemoryPointer:
        rounded = -(-size // UNIT) * UNIT
        if self._used + rounded > self._total:
            if self._used + rounded > (self._limit or TOTAL):
                raise real.cuda.memory.OutOfMemoryError(rounded, self._total, self._limit)
            self._total = self._used + rounded
        mem = Memory(rounded)
        self._used += rounded
        _notify("malloc", device_id=0, size=size, mem_size=rounded, mem_ptr=mem.ptr, pmem_id=id(mem))
        weakref.finalize(mem, self._free, rounded, mem.ptr, id(mem))
        return MemoryPointer(mem, 0)

    def _free(self, size: int, ptr: int, pmem_id: int) -> None:
        self._used -= size
        _notify("free", device_id=0, mem_size=size, mem_ptr=ptr, pmem_id=pmem_id)

    def used_bytes(self) -> int:
        return self._used

    def total_bytes(self) -> int:
        return self._total

    def free_bytes(self) -> int:
        return self._total - self._used

    def free_all_blocks(self, stream: Any = None) -> None:
        self._total = self._used

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        if (size is None) == (fraction is None):
            raise ValueError("size and fraction cannot be specified at one time")
        self._limit = size if size is not None else int(fraction * TOTAL)

    def get_limit(self) -> int:
        return self._limit


class MemoryHook:
    """Notified of what the pool allocates and frees, between `__enter__` and `__exit__`."""

    name = "MemoryHook"

    def __enter__(self) -> MemoryHook:
        if self.name in _hooks:
            raise KeyError(f"memory hook {self.name} already exists")
        _hooks[self.name] = self
        return self

    def __exit__(self, *error: object) -> None:
        del _hooks[self.name]

    def malloc_preprocess(self, **told: int) -> None: ...

    def malloc_postprocess(self, **told: int) -> None: ...

    def free_preprocess(self, **told: int) -> None: ...

    def free_postprocess(self, **told: int) -> None: ...


_hooks: dict[str, MemoryHook] = {}
_allocator: list[Callable] = [MemoryPool().malloc]


def _notify(what: str, **told: int) -> None:
    for hook in tuple(_hooks.values()):
        getattr(hook, f"{what}_postprocess")(**told)


def alloc(size: int) -> MemoryPointer:
    """Allocate with the current allocator."""
    return _allocator[-1](size)


def set_allocator(allocator: Callable | None = None) -> None:
    _allocator[-1] = allocator or MemoryPool().malloc


def get_allocator() -> Callable:
    return _allocator[-1]


@contextlib.contextmanager
def using_allocator(allocator: Callable | None = None) -> Iterator[None]:
    _allocator.append(allocator or MemoryPool().malloc)
    try:
        yield
    finally:
        _allocator.pop()


# -- devices, streams and events -----------------------------------------------------------------------------------------------


class Device:
    """The one GPU."""

    def __init__(self, device: Any = None) -> None:
        self.id = int(device.id if isinstance(device, Device) else device or 0)
        if self.id:
            raise real.cuda.runtime.CUDARuntimeError(101)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def use(self) -> None: ...

    def synchronize(self) -> None:
        record("Device.synchronize")

    compute_capability = "90"
    mem_info = (TOTAL, TOTAL)


class Stream:
    """A queue whose work is always complete, since the host does it at once."""

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None) -> None:
        self.ptr, self.priority, self.done = 0 if null else id(self), priority or 0, True

    def synchronize(self) -> None:
        record("Stream.synchronize")

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None: ...

    def use(self) -> Stream:
        _current.streams = [*_streams()[:-1], self]
        return self

    def __enter__(self) -> Stream:
        _current.streams = [*_streams(), self]
        return self

    def __exit__(self, *error: object) -> None:
        _current.streams = _streams()[:-1]


Stream.null = Stream(null=True)  # type: ignore[attr-defined]
_current = threading.local()


def _streams() -> list[Stream]:
    return getattr(_current, "streams", [Stream.null])  # type: ignore[attr-defined]


def get_current_stream(device_id: int = -1) -> Stream:
    return _streams()[-1]


class Event:
    """A point in time."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.time, self.done = None if disable_timing else 0.0, True

    def record(self, stream: Stream | None = None) -> None:
        self.time = self.time if self.time is None else time.perf_counter()

    def synchronize(self) -> None:
        record("Event.synchronize")


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    if start_event.time is None or end_event.time is None:
        raise real.cuda.runtime.CUDARuntimeError(400)
    return (end_event.time - start_event.time) * 1e3


class _Runtime(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(real.cuda.runtime, name)

    getDeviceCount = staticmethod(lambda: 1)
    getDevice = staticmethod(lambda: 0)
    getDeviceProperties = staticmethod(lambda index: PROPERTIES)
    deviceCanAccessPeer = staticmethod(lambda index, other: 0)
    runtimeGetVersion = staticmethod(lambda: 12080)
    memGetInfo = staticmethod(lambda: (TOTAL, TOTAL))
    deviceSynchronize = staticmethod(lambda: record("deviceSynchronize"))


class Cuda(types.ModuleType):
    """The module `cupy.cuda`: this file's names, else the real module's."""

    def __init__(self) -> None:
        super().__init__("cupy.cuda")
        self.__dict__.update({name: globals()[name] for name in _NAMES}, __path__=real.cuda.__path__, runtime=_Runtime("runtime"))
        self.nvtx = types.SimpleNamespace(Mark=lambda *a: None, RangePush=lambda *a: None, RangePop=lambda: None)
        self.PinnedMemoryPool = MemoryPool
        self.set_pinned_memory_allocator = lambda allocator: None

    def __getattr__(self, name: str) -> Any:
        return getattr(real.cuda, name)


_NAMES = (
    "Memory", "MemoryPointer", "MemoryPool", "MemoryHook", "alloc", "set_allocator", "get_allocator", "using_allocator", "Device", "Stream",
    "Event", "get_current_stream", "get_elapsed_time",
)  # fmt: skip
