"""`cupy.cuda` without a GPU: memory, devices, streams and events of imaginary GPUs whose memory is the host's.

What is not defined here comes from the real `cupy.cuda`, which imports without a driver. Waiting for a stream or an event is recorded.
"""

from __future__ import annotations

import contextlib
import threading
import time
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import cupy as real
import numpy
from syncs import record

UNIT = 512  # CuPy's pool hands out multiples of this many bytes, aligned to it
TOTAL = 1 << 34  # bytes of memory on each GPU
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
        self.buffer, self.size, self.device = whole[start : start + size], size, Device()
        self.ptr, self.device_id = self.buffer.ctypes.data, self.device.id


class MemoryPointer:
    """A place in a block of memory."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id, self.device = mem, mem.ptr + offset, mem.device_id, mem.device

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    def __int__(self) -> int:
        return self.ptr

    def memset(self, value: int, size: int) -> None:
        at = self.ptr - self.mem.ptr
        self.mem.buffer[at : at + size] = value

    memset_async = memset


class MemoryPool:
    """Counts what is in use and what is held for reuse on each GPU, and keeps to a limit, as CuPy's pool does."""

    def __init__(self, allocator: Any = None) -> None:
        self._used, self._held, self._limits = Counter(), Counter(), Counter()

    def malloc(self, size: int) -> MemoryPointer:
        rounded, gpu = -(-size // UNIT) * UNIT, current_device()
        after = self._used[gpu] + rounded
        if after > self._held[gpu]:
            if after > (self._limits[gpu] or TOTAL):
                raise real.cuda.memory.OutOfMemoryError(rounded, self._held[gpu], self._limits[gpu])
            self._held[gpu] = after
        mem = Memory(rounded)
        self._used[gpu] = after
        _notify("malloc", device_id=gpu, size=size, mem_size=rounded, mem_ptr=mem.ptr, pmem_id=id(mem))
        weakref.finalize(mem, self._free, device_id=gpu, mem_size=rounded, mem_ptr=mem.ptr, pmem_id=id(mem))
        return MemoryPointer(mem, 0)

    def _free(self, **told: int) -> None:
        self._used[told["device_id"]] -= told["mem_size"]
        _notify("free", **told)

    def used_bytes(self) -> int:
        return self._used[current_device()]

    def total_bytes(self) -> int:
        return self._held[current_device()]

    def free_bytes(self) -> int:
        return self.total_bytes() - self.used_bytes()

    def free_all_blocks(self, stream: Any = None) -> None:
        self._held[current_device()] = self.used_bytes()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        if (size is None) == (fraction is None):
            raise ValueError("size and fraction cannot be specified at one time")
        self._limits[current_device()] = size if size is not None else int(fraction * TOTAL)

    def get_limit(self) -> int:
        return self._limits[current_device()]


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


count = 1  # the number of GPUs
_current = threading.local()


def current_device() -> int:
    """The GPU on which this thread creates arrays and runs kernels."""
    return getattr(_current, "device", 0)


class Device:
    """One of the GPUs, by default the current one."""

    def __init__(self, device: Any = None) -> None:
        self.id = current_device() if device is None else int(getattr(device, "id", device))

    def __enter__(self) -> Device:
        self._outer = [*getattr(self, "_outer", ()), current_device()]
        return self.use()

    def __exit__(self, *error: object) -> None:
        _current.device = self._outer.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> Device:
        if not 0 <= self.id < count:
            raise real.cuda.runtime.CUDARuntimeError(101)  # invalid device ordinal
        _current.device = self.id
        return self

    def synchronize(self) -> None:
        record("Device.synchronize")

    compute_capability = "90"
    mem_info = (TOTAL, TOTAL)


class Stream:
    """A queue whose work is always complete, since the host does it at once."""

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None) -> None:
        self.ptr, self.priority, self.done, self.capturing = 0 if null else id(self), priority or 0, True, False

    def is_capturing(self) -> bool:
        return self.capturing

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

    getDeviceCount = staticmethod(lambda: count)
    getDevice = staticmethod(current_device)
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
        self.alloc_pinned_memory = bytearray
        self.set_pinned_memory_allocator = lambda allocator: None

    def __getattr__(self, name: str) -> Any:
        return getattr(real.cuda, name)


_NAMES = (
    "Memory", "MemoryPointer", "MemoryPool", "MemoryHook", "alloc", "set_allocator", "get_allocator", "using_allocator", "Device", "Stream",
    "Event", "get_current_stream", "get_elapsed_time",
)  # fmt: skip
