"""`cupy.cuda` without a GPU: memory of imaginary GPUs whose memory is the host's, and how arrays' work is captured in graphs.

Devices, streams and events are in `host_streams`. What is not defined here comes from the real `cupy.cuda`, which imports without a
driver. Waiting for a stream or an event is recorded.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import types
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import cupy as real
import host_streams
import numpy
from host_streams import Device, Stream, current_device, failure, get_current_stream, submit
from syncs import record

UNIT = 512  # CuPy's pool hands out multiples of this many bytes, aligned to it
TOTAL = 1 << 34  # bytes of memory on each GPU
PROPERTIES = {
    "name": b"Stand-in", "major": 9, "minor": 0, "totalGlobalMem": TOTAL, "multiProcessorCount": 132, "warpSize": 32,
    "maxThreadsPerMultiProcessor": 2048, "maxThreadsPerBlock": 1024, "l2CacheSize": 1 << 26, "integrated": 0, "isMultiGpuBoard": 0,
    "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 233472, "regsPerMultiprocessor": 65536, "memoryBusWidth": 5120,
    "uuid": bytes(range(16)), "pciBusID": 3, "pciDeviceID": 0, "pciDomainID": 0,
}  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------------------------

_taken: Counter = Counter()  # GPU -> bytes allocated on it


memories: weakref.WeakSet[Memory] = weakref.WeakSet()  # all that is there


class Memory:
    """A block of a GPU's memory, filled with ones: a float that nothing has written is nan."""

    def __init__(self, size: int, counted: bool = True) -> None:
        self.size, self.device, self.alive = size, Device(), [True]
        self.device_id = self.device.id
        if counted:
            if _taken[self.device_id] + size > TOTAL:
                raise failure(2)  # out of memory
            _taken[self.device_id] += size
            weakref.finalize(self, self._freed, self.device_id, size, self.alive)
        whole = numpy.full(size + UNIT, 0xFF, numpy.uint8)
        start = -whole.ctypes.data % UNIT
        self.buffer = whole[start : start + size]
        self.ptr = self.buffer.ctypes.data
        memories.add(self)

    @staticmethod
    def _freed(gpu: int, size: int, alive: list) -> None:
        _taken[gpu] -= size
        alive[0] = False


class PooledMemory:
    """A block that goes back to its pool, to the free blocks of its stream."""

    def __init__(self, block: Memory, pool: weakref.ref, stream: int) -> None:
        self.buffer, self.size, self.device, self.device_id, self.ptr, self.alive = (
            block.buffer, block.size, block.device, block.device_id, block.ptr, block.alive
        )  # fmt: skip
        self._end = weakref.finalize(self, MemoryPool._free, pool, block, stream, id(self))


class Borrowed:
    """Memory that a graph refers to, without keeping it from being freed and reused."""

    def __init__(self, of: Any) -> None:
        self.buffer, self.size, self.device, self.device_id, self.ptr, self.alive = (
            of.buffer, of.size, of.device, of.device_id, of.ptr, of.alive
        )  # fmt: skip


def foreign(pointer: int, size: int, owner: Any) -> Memory:
    """Memory of another library, as a block."""
    found = Memory(0, counted=False)
    found.buffer = numpy.frombuffer((ctypes.c_uint8 * size).from_address(pointer), numpy.uint8)
    found.size, found.ptr, found.owner = size, pointer, owner  # type: ignore[attr-defined]
    return found


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
        target = Borrowed(self.mem).buffer[at : at + size]
        submit(lambda: target.fill(value))

    memset_async = memset

    def copy_from_host_async(self, mem: Any, size: int, stream: Stream | None = None) -> None:
        """Copy when the stream comes to it: from pageable memory at once, from pinned memory later."""
        at, source = self.ptr - self.mem.ptr, getattr(mem, "value", mem)
        target = Borrowed(self.mem).buffer[at : at + size]
        host = numpy.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(source))
        submit(lambda: target.__setitem__(slice(None), host))


class MemoryPool:
    """Blocks of each GPU, reused in the stream that freed them only, as CuPy's pool does; it keeps to a limit."""

    def __init__(self, allocator: Any = None) -> None:
        self._allocator = allocator or malloc
        self._used, self._held, self._limits = Counter(), Counter(), Counter()
        self._blocks: dict[tuple, list[Memory]] = defaultdict(list)  # (GPU, stream, size) -> free blocks
        _pools.add(self)

    def malloc(self, size: int) -> MemoryPointer:
        rounded, gpu, stream = -(-size // UNIT) * UNIT, current_device(), get_current_stream().ptr
        for hook in tuple(_hooks().values()):
            hook.malloc_preprocess(device_id=gpu, size=size, mem_size=rounded)
        found = self._blocks[gpu, stream, rounded]
        block = found.pop() if found else self._new(gpu, rounded)
        block.buffer[...] = 0xFF
        self._used[gpu] += rounded
        mem = PooledMemory(block, weakref.ref(self), stream)
        for hook in tuple(_hooks().values()):
            hook.malloc_postprocess(device_id=gpu, size=size, mem_size=rounded, mem_ptr=mem.ptr, pmem_id=id(mem))
        return MemoryPointer(mem, 0)

    def _new(self, gpu: int, size: int) -> Memory:
        if self._limits[gpu] and self._held[gpu] + size > self._limits[gpu]:
            raise real.cuda.memory.OutOfMemoryError(size, self._held[gpu], self._limits[gpu])
        try:
            block = self._allocated(gpu, size)
        except real.cuda.runtime.CUDARuntimeError:
            self.free_all_blocks()
            try:
                block = self._allocated(gpu, size)
            except real.cuda.runtime.CUDARuntimeError:
                raise real.cuda.memory.OutOfMemoryError(size, self._held[gpu], self._limits[gpu]) from None
        self._held[gpu] += size
        return block

    def _allocated(self, gpu: int, size: int) -> Memory:
        block = self._allocator(size).mem
        for hook in tuple(_hooks().values()):
            hook.alloc_postprocess(device_id=gpu, mem_size=size, mem_ptr=block.ptr)
        return block

    @staticmethod
    def _free(pool: weakref.ref, block: Memory, stream: int, pmem_id: int) -> None:
        self = pool()
        if self is not None:
            self._used[block.device_id] -= block.size
            self._blocks[block.device_id, stream, block.size].append(block)
        for hook in tuple(_hooks().values()):
            hook.free_postprocess(device_id=block.device_id, mem_size=block.size, mem_ptr=block.ptr, pmem_id=pmem_id)

    def used_bytes(self) -> int:
        return self._used[current_device()]

    def total_bytes(self) -> int:
        return self._held[current_device()]

    def free_bytes(self) -> int:
        return self.total_bytes() - self.used_bytes()

    def n_free_blocks(self) -> int:
        return sum(len(blocks) for (gpu, *_), blocks in self._blocks.items() if gpu == current_device())

    def free_all_blocks(self, stream: Any = None) -> None:
        gpu = current_device()
        for (device, _, size), blocks in self._blocks.items():
            if device == gpu:
                self._held[gpu] -= size * len(blocks)
                blocks.clear()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        if (size is None) == (fraction is None):
            raise ValueError("size and fraction cannot be specified at one time")
        self._limits[current_device()] = size if size is not None else int(fraction * TOTAL)

    def get_limit(self) -> int:
        return self._limits[current_device()]


def malloc(size: int) -> MemoryPointer:
    return MemoryPointer(Memory(size), 0)


class MemoryHook:
    """Notified of what pools allocate and free in this thread, between `__enter__` and `__exit__`."""

    name = "MemoryHook"

    def __enter__(self) -> MemoryHook:
        if self.name in _hooks():
            raise KeyError(f"memory hook {self.name} already exists")
        _hooks()[self.name] = self
        return self

    def __exit__(self, *error: object) -> None:
        del _hooks()[self.name]

    def alloc_preprocess(self, **told: int) -> None: ...

    def alloc_postprocess(self, **told: int) -> None: ...

    def malloc_preprocess(self, **told: int) -> None: ...

    def malloc_postprocess(self, **told: int) -> None: ...

    def free_preprocess(self, **told: int) -> None: ...

    def free_postprocess(self, **told: int) -> None: ...


_local = threading.local()
_pools: weakref.WeakSet = weakref.WeakSet()
_allocator: list[Callable] = [MemoryPool().malloc]


def _hooks() -> dict[str, MemoryHook]:
    return _local.__dict__.setdefault("hooks", {})


def alloc(size: int) -> MemoryPointer:
    """Allocate with the current allocator."""
    return get_allocator()(size)


def set_allocator(allocator: Callable | None = None) -> None:
    if _local.__dict__.get("allocator") is not None:
        raise ValueError("Can't change the global allocator inside `using_allocator` context manager")
    _allocator[-1] = allocator or malloc


def get_allocator() -> Callable:
    return _local.__dict__.get("allocator") or _allocator[-1]


@contextlib.contextmanager
def using_allocator(allocator: Callable | None = None) -> Iterator[None]:
    outer, _local.allocator = _local.__dict__.get("allocator"), allocator or malloc
    try:
        yield
    finally:
        _local.allocator = outer


# -- pinned memory -----------------------------------------------------------------------------------------------------------

_pinned: dict[int, int] = {}  # address -> size, of the host's memory that is pinned


class PinnedMemoryPool:
    """Pinned memory of the host. Blocks are reused once the arrays on them are gone."""

    def __init__(self, allocator: Any = None) -> None:
        self._free: dict[int, list[numpy.ndarray]] = defaultdict(list)

    def malloc(self, size: int) -> Any:
        rounded = max(-(-size // UNIT) * UNIT, UNIT)
        free = self._free[rounded]
        block = free.pop() if free else numpy.zeros(rounded, numpy.uint8)
        _pinned[block.ctypes.data] = rounded
        memory = (ctypes.c_uint8 * size).from_address(block.ctypes.data)  # alive as long as an array on it
        weakref.finalize(memory, free.append, block)
        return memory

    def free_all_blocks(self) -> None:
        for blocks in self._free.values():
            for block in blocks:
                _pinned.pop(block.ctypes.data)
            blocks.clear()


_pinned_allocator: list[Callable] = [PinnedMemoryPool().malloc]


def alloc_pinned_memory(size: int) -> Any:
    return _pinned_allocator[-1](size)


def set_pinned_memory_allocator(allocator: Callable | None = None) -> None:
    _pinned_allocator[-1] = allocator or PinnedMemoryPool().malloc


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> numpy.ndarray:
    """`cupyx.empty_pinned`."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    memory = alloc_pinned_memory(int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize)
    return numpy.frombuffer(memory, dtype).reshape(shape, order=order)


def pointer_attributes(pointer: int) -> types.SimpleNamespace:
    """`cudaPointerGetAttributes`: type 1 is pinned memory of the host, 0 is other memory of the host."""
    pinned = any(start <= pointer < start + size for start, size in _pinned.items())
    return types.SimpleNamespace(type=int(pinned), device=current_device(), hostPointer=pointer, devicePointer=0)


# -- captures ----------------------------------------------------------------------------------------------------------------


def captured(function: Callable) -> Callable:
    """Make a function of arrays part of the current stream's work.

    While the stream is capturing, its results are not computed: they, and the arrays that it writes to, are left as they were, and a
    replay runs the function on the same memory.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        graph = get_current_stream().graph
        if graph is None or graph.inside or not any(map(_is_array, _leaves((args, kwargs)))):
            if graph is None:
                host_streams.took()
            return function(*args, **kwargs)
        given = [x for x in _leaves((args, kwargs)) if _is_array(x)]
        before = [(x.data.mem.buffer, x.data.mem.buffer.copy()) for x in given]
        graph.inside = True
        try:
            result = function(*args, **kwargs)
        finally:
            graph.inside = False
        for out in (x for x in _leaves(result) if _is_array(x)):
            if all(out.data.mem is not x.data.mem for x in given):
                out.data.mem.buffer[...] = 0xFF
        for memory, values in before:
            memory[...] = values
        graph.works.append(functools.partial(_again, function, _map(_borrowed, (args, kwargs)), _map(_borrowed, result)))
        return result

    return call


def _again(function: Callable, given: tuple, result: Any) -> None:
    args, kwargs = given
    for x in _leaves((given, result)):
        if _is_array(x) and not x.data.mem.alive[0]:
            raise failure(700)  # an illegal memory access: the memory has been returned to the GPU
    with using_allocator(lambda size: MemoryPointer(Memory(size, counted=False), 0)):
        found = function(*args, **kwargs)
    for old, new in zip(_leaves(result), _leaves(found), strict=True):
        if _is_array(old) and old.size and not numpy.may_share_memory(old._host, new._host):
            old._host[...] = new._host


def _is_array(x: Any) -> bool:
    return hasattr(x, "_host") and hasattr(x, "data")


def _borrowed(x: Any) -> Any:
    if not _is_array(x):
        return x
    out = object.__new__(type(x))
    out.data = MemoryPointer(Borrowed(x.data.mem), x.data.ptr - x.data.mem.ptr)
    out._host, out.base = x._host, x.base
    return out


def _map(fn: Callable, x: Any) -> Any:
    if isinstance(x, dict):
        return {name: _map(fn, value) for name, value in x.items()}
    return type(x)(_map(fn, one) for one in x) if type(x) in (tuple, list) else fn(x)


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, dict):
        x = tuple(x.values())
    if type(x) in (tuple, list):
        for one in x:
            yield from _leaves(one)
    else:
        yield x


# -- the module --------------------------------------------------------------------------------------------------------------


def reset(gpus: int) -> None:
    """Begin anew, with so many GPUs: no block is held, the clock is at 0."""
    host_streams.reset(gpus)
    _local.__dict__.clear()
    for pool in _pools:
        for device in range(gpus):
            with Device(device):
                pool.free_all_blocks()
                pool.set_limit(size=0)


class _Runtime(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(real.cuda.runtime, name)

    getDeviceCount = staticmethod(lambda: host_streams.count)
    getDevice = staticmethod(current_device)
    getDeviceProperties = staticmethod(lambda index: PROPERTIES)
    deviceCanAccessPeer = staticmethod(lambda index, other: 0)
    runtimeGetVersion = staticmethod(lambda: 12080)
    memGetInfo = staticmethod(lambda: (TOTAL - _taken[current_device()], TOTAL))
    pointerGetAttributes = staticmethod(pointer_attributes)
    deviceSynchronize = staticmethod(lambda: record("deviceSynchronize"))


class Nvtx(types.ModuleType):
    """`cupy.cuda.nvtx`: what was marked, in `told`."""

    def __init__(self) -> None:
        super().__init__("cupy.cuda.nvtx")
        self.told: list[tuple] = []
        self.Mark = lambda message, id_color=-1: self.told.append(("mark", message))
        self.RangePush = lambda message, id_color=-1: self.told.append(("push", message))
        self.RangePop = lambda: self.told.append(("pop",))
        self.RangeStart = lambda message, id_color=-1: self.told.append(("start", message)) or len(self.told)
        self.RangeEnd = lambda id: self.told.append(("end", id))


class Cuda(types.ModuleType):
    """The module `cupy.cuda`: this file's names, else the real module's."""

    def __init__(self) -> None:
        super().__init__("cupy.cuda")
        self.__dict__.update({name: globals()[name] for name in _NAMES}, __path__=real.cuda.__path__, runtime=_Runtime("runtime"))
        self.__dict__.update({name: getattr(host_streams, name) for name in _OF_STREAMS})
        self.nvtx = Nvtx()

    def __getattr__(self, name: str) -> Any:
        return getattr(real.cuda, name)


_NAMES = (
    "Memory", "MemoryPointer", "MemoryPool", "MemoryHook", "alloc", "set_allocator", "get_allocator", "using_allocator", "PinnedMemoryPool",
    "alloc_pinned_memory", "set_pinned_memory_allocator",
)  # fmt: skip
_OF_STREAMS = ("Device", "Stream", "Event", "Graph", "get_current_stream", "get_elapsed_time")
