"""GPU memory: CuPy's pools and what they count, errors for exhausted memory, memory that several streams use, and pinned host memory."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
import numpy

from ...base import errors
from ...base.layout import axes_of, inverse

ooms: Counter[int] = Counter()  # GPU index -> number of allocations that failed
capture = threading.local()  # `held`: None, or the pinned arrays that the graph which this thread captures will read and write
_malloc: Callable[[int], Any]  # the allocator that `install` found, that of CuPy's pool unless the program chose another
_pools: weakref.WeakValueDictionary[tuple[int, int], Pool] = weakref.WeakValueDictionary()


class OutOfMemoryError(errors.OutOfMemoryError, cupy.cuda.memory.OutOfMemoryError):
    """The engine's error, which is also CuPy's."""

    __init__ = RuntimeError.__init__  # type: ignore[assignment]


class Uncapturable(RuntimeError):
    """Raised while a graph is captured for work that a replay could not do again."""


def capturing() -> bool:
    """Return whether this thread captures a graph."""
    return getattr(capture, "held", None) is not None


def install() -> None:
    """Make CuPy allocate through this module."""
    global _malloc
    _malloc = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(allocate)
    cupy.cuda.set_pinned_memory_allocator(_allocate_pinned)


def allocate(size: int, malloc: Callable[[int], Any] | None = None) -> Any:
    """Allocate from CuPy's pool, or by `malloc`. Raises OutOfMemoryError, with PyTorch's words and the largest arrays."""
    if _shared or _busy:
        _take_back()
    try:
        return (malloc or _malloc)(size)
    except MemoryError as error:
        if not capturing():  # once more with what the pool can give back, which CuPy does not try at a limit
            gc.collect()
            cupy.get_default_memory_pool().free_all_blocks()
            with contextlib.suppress(MemoryError):
                return (malloc or _malloc)(size)
        index = cupy.cuda.Device().id
        ooms[index] += 1
        raise OutOfMemoryError(_full(size, index)) from error


def _full(size: int, index: int) -> str:
    free, total = cupy.cuda.runtime.memGetInfo()
    used, held, limit = used_bytes(index), held_bytes(index), cupy.get_default_memory_pool().get_limit()
    told = (
        f"CUDA out of memory. Tried to allocate {in_words(size)}. GPU {index} has a total capacity of {in_words(total)} of which "
        f"{in_words(free)} is free. Of the allocated memory {in_words(used)} is allocated by tensors, and {in_words(held - used)} is "
        "reserved by the pool but unallocated."
    )
    if limit:
        told += f" The pool is limited to {in_words(limit)} (set_per_process_memory_fraction)."
    for array in _largest(index):
        origin = errors.origin(array) if errors.origin is not None else ""
        told += f"\n{in_words(array.nbytes)}: {array.dtype} {array.shape}{f', {origin}' if origin else ''}"
    return told


def _largest(index: int, count: int = 5) -> list[Any]:
    """The largest arrays on a GPU, one for each block of memory."""
    # by `type`: asking an object for its `__class__` can run a program's code
    found = [a for a in gc.get_objects() if issubclass(type(a), cupy.ndarray) and getattr(a, "data", None) is not None and a.base is None]
    blocks = {a.data.ptr: a for a in sorted(found, key=lambda a: a.nbytes) if a.data.device_id == index}
    return sorted(blocks.values(), key=lambda a: -a.nbytes)[:count]


def in_words(n: int) -> str:
    """Return a number of bytes as PyTorch writes it: "512 bytes", "20.00 MiB"."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} bytes"


# -- pools -------------------------------------------------------------------------------------------------------------------


class Pool:
    """A memory pool apart from CuPy's default one. Its free memory returns to the GPU when no one holds it any more."""

    _numbers = iter(range(1, sys.maxsize))

    def __init__(self, id: tuple[int, int] | None = None) -> None:
        self.id = (0, next(self._numbers)) if id is None else id
        self.memory = cupy.cuda.MemoryPool()
        self.allocating = False  # whether `malloc` is running
        _pools[self.id] = self

    def malloc(self, size: int) -> Any:
        """Allocate from the pool, as CuPy's allocator in a `with using(pool)` block."""
        self.allocating = True
        try:
            return allocate(size, self.memory.malloc)
        finally:
            self.allocating = False


def pool_of(id: tuple[int, int] | None) -> Pool:
    """Return the pool with this id, or a new one."""
    return Pool(id) if id is None or id not in _pools else _pools[id]


def new_id() -> tuple[int, int]:
    """Return the id of a pool that does not exist yet."""
    return 0, next(Pool._numbers)


@contextlib.contextmanager
def using(pool: Pool, index: int | None = None) -> Iterator[None]:
    """Allocate from a pool in this thread, on one GPU or all."""

    def malloc(size: int) -> Any:
        return pool.malloc(size) if index is None or cupy.cuda.Device().id == index else outer(size)

    outer = cupy.cuda.get_allocator()
    with cupy.cuda.using_allocator(malloc):
        yield


def _sum(index: int, what: str) -> int:
    with cupy.cuda.Device(index):
        pools = (cupy.get_default_memory_pool(), *[pool.memory for pool in _pools.values()])
        return sum(int(getattr(pool, what)()) for pool in pools)


def used_bytes(index: int) -> int:
    """Return the bytes of a GPU's pools that arrays occupy."""
    return _sum(index, "used_bytes")


def held_bytes(index: int) -> int:
    """Return the bytes of a GPU that the pools hold, in use or free."""
    return _sum(index, "total_bytes")


def free_blocks(index: int) -> None:
    """Return the free memory of the default pool to the GPU."""
    note(index)
    with cupy.cuda.Device(index):
        cupy.get_default_memory_pool().free_all_blocks()


def free_pinned_blocks() -> None:
    """Return the free pinned memory to the host."""
    cupy.get_default_pinned_memory_pool().free_all_blocks()


def limit(index: int, fraction: float) -> None:
    """Limit the default pool to a fraction of the GPU's memory; 1 is no limit."""
    with cupy.cuda.Device(index):
        cupy.get_default_memory_pool().set_limit(fraction=fraction if fraction < 1 else 0)


def limited(index: int) -> float:
    """Return the fraction of the GPU's memory to which the default pool is limited."""
    with cupy.cuda.Device(index):
        bound, (_, total) = cupy.get_default_memory_pool().get_limit(), cupy.cuda.runtime.memGetInfo()
    return bound / total if bound else 1.0


# -- counting ----------------------------------------------------------------------------------------------------------------

_held: dict[int, int] = {}  # GPU index -> the most bytes that its pools were observed to hold
_counters: dict[int, Counts] = {}
KINDS = ("allocated_bytes", "requested_bytes", "reserved_bytes", "allocation", "segment")


class Counts(cupy.cuda.MemoryHook):
    """Counts what this thread allocates and frees on one GPU: for each of `KINDS` the current and peak value, and the total of both."""

    name = "engine.counts"

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.name = index, f"{Counts.name}.{index}"
        self._sizes: dict[int, int] = {}  # id of a block -> bytes that were requested
        self.start()

    def start(self) -> None:
        """Begin anew: the peaks are what is in use now."""
        used = used_bytes(self.index)
        self.current = Counter(allocated_bytes=used, requested_bytes=used, reserved_bytes=held_bytes(self.index))
        self.peak, self.allocated, self.freed = self.current.copy(), Counter(), Counter()

    def _add(self, kind: str, n: int) -> None:
        self.current[kind] += n
        self.peak[kind] = max(self.peak[kind], self.current[kind])
        (self.allocated if n > 0 else self.freed)[kind] += abs(n)

    def malloc_postprocess(self, **told: Any) -> None:
        if told["device_id"] == self.index and told["mem_ptr"]:
            self._sizes[told["mem_ptr"]] = told["size"]
            self._add("allocated_bytes", told["mem_size"])
            self._add("requested_bytes", told["size"])
            self._add("allocation", 1)

    def free_postprocess(self, **told: Any) -> None:
        if told["device_id"] == self.index:
            self._add("allocated_bytes", -told["mem_size"])
            self._add("requested_bytes", -self._sizes.pop(told["mem_ptr"], told["mem_size"]))
            self._add("allocation", -1)

    def alloc_postprocess(self, **told: Any) -> None:
        if told["device_id"] == self.index and told["mem_ptr"]:
            self._add("reserved_bytes", told["mem_size"])
            self._add("segment", 1)


def counts(index: int) -> Counts | None:
    """Return what has been counted since `reset_peaks`; None before its first call."""
    return _counters.get(index)


def note(index: int) -> int:
    """Observe what the pools hold; return the most observed, in bytes. A pool grows until it is emptied."""
    _held[index] = max(held_bytes(index), _held.get(index, 0))
    return _held[index]


def peak_used(index: int) -> int:
    """Return the peak bytes in use since `reset_peaks`; before its first call, the most that the pools have held."""
    return _counters[index].peak["allocated_bytes"] if index in _counters else note(index)


def reset_peaks(index: int) -> None:
    """Reset the peaks. The first call also starts counting this thread's allocations."""
    if index in _counters:
        _counters[index].start()
    else:
        _counters[index] = Counts(index)
        _counters[index].__enter__()
    _held.pop(index, None)
    note(index)


# -- memory that work of several streams uses --------------------------------------------------------------------------------

_lock = threading.Lock()
_shared: dict[int, tuple[Any, list]] = {}  # id of a block of memory -> the block, and the streams that use it beside its own
_busy: deque[tuple[Any, list]] = deque()  # memory that no array holds any more, or that a copy reads, and the events to wait for


def share(memory: Any, stream: Any) -> None:
    """Keep a block of memory that `stream` uses too from being reused, once it is freed, before that stream has done its work."""
    _, streams = _shared.setdefault(id(memory), (memory, []))
    if stream not in streams:
        streams.append(stream)


def _now(stream: Any, index: int) -> Any:
    """Return an event after the work submitted to a stream so far; `index` is the GPU of a default stream."""
    with cupy.cuda.Device(index if stream.device_id < 0 else stream.device_id):
        return stream.record(cupy.cuda.Event(disable_timing=True))


def _references(entry: tuple) -> int:
    return sys.getrefcount(entry[0])


_ALONE = _references((object(), []))  # the references to a block that only `_shared` holds


def _take_back() -> None:
    """Free the blocks that no array holds and no stream uses any more. In a capture nothing is freed: events cannot be asked there."""
    if capturing() or not _lock.acquire(blocking=False):
        return
    try:
        for key, entry in list(_shared.items()):
            if _references(entry) == _ALONE:
                memory, streams = _shared.pop(key)
                _busy.append((memory, [_now(stream, memory.device_id) for stream in streams]))
        for _ in range(len(_busy)):
            kept = _busy.popleft()
            if not all(event.done for event in kept[1]):
                _busy.append(kept)
    finally:
        _lock.release()


# -- pinned memory -----------------------------------------------------------------------------------------------------------


def _allocate_pinned(size: int) -> Any:
    """Allocate for CuPy, which copies from the host through pinned memory: a replay of a graph would find other values there."""
    if capturing():
        raise Uncapturable("it copies values of the host to the GPU, of which a replay would see no new ones")
    return cupy.get_default_pinned_memory_pool().malloc(size)


def is_pinned(array: numpy.ndarray) -> bool:
    """Return whether an array of the host is in pinned memory."""
    return bool(array.size) and cupy.cuda.runtime.pointerGetAttributes(array.ctypes.data).type == 1


def _empty_pinned(shape: Sequence[int], dtype: Any) -> numpy.ndarray:
    """Return an uninitialized array in pinned memory, also in a capture."""
    n = math.prod(shape)
    memory = cupy.get_default_pinned_memory_pool().malloc(max(n * dtype.itemsize, 1))
    return numpy.frombuffer(memory, numpy.uint8, n * dtype.itemsize).view(dtype).reshape(shape)


def pinned(array: numpy.ndarray) -> numpy.ndarray:
    """Return a copy in pinned memory, in the same memory order."""
    axes = axes_of(array)
    out = _empty_pinned(array.shape if axes is None else [array.shape[d] for d in axes], array.dtype)
    out = out if axes is None else out.transpose(inverse(axes))
    out[...] = array
    return out


def _keep(array: numpy.ndarray, stream: Any) -> None:
    """Keep pinned memory from being reused before a copy on a stream is done, or as long as the graph that is being captured lives."""
    if capturing():
        capture.held.append(array)
    else:
        _busy.append((array, [_now(stream, cupy.cuda.Device().id)]))


def copy_from_pinned(array: numpy.ndarray, index: int | None = None) -> Any:
    """Copy from pinned memory to a GPU, by default the current one, in the same memory order, without waiting.

    The copy reads the memory when the current stream comes to it. Returns None for memory that is not pinned, and for arrays with gaps.
    """
    axes = axes_of(array)
    rows = array if axes is None else array.transpose(axes)
    if not (is_pinned(array) and rows.flags.c_contiguous):
        return None
    with cupy.cuda.Device(index):
        out, stream = cupy.empty(rows.shape, rows.dtype), cupy.cuda.get_current_stream()
        out.data.copy_from_host_async(rows.ctypes.data, rows.nbytes, stream)
        _keep(array, stream)
    return out if axes is None else out.transpose(inverse(axes))


def copy_to_pinned(array: Any) -> numpy.ndarray:
    """Copy to new pinned memory, in the same memory order, without waiting."""
    axes = axes_of(array)
    rows = array if axes is None else array.transpose(axes)
    with array.device:
        out, stream = _empty_pinned(rows.shape, rows.dtype), cupy.cuda.get_current_stream()
        rows.get(stream, out=out, blocking=False)
        _keep(out, stream)
    return out if axes is None else out.transpose(inverse(axes))


def upload(table: numpy.ndarray) -> Any:
    """Copy a table of constants to the current GPU. In a capture it is copied at once, and kept as long as the graph lives."""
    if not capturing():
        return cupy.asarray(table)
    held, capture.held = capture.held, None
    try:
        with cupy.cuda.using_allocator(allocate), cupy.cuda.Stream(non_blocking=True) as stream:
            out = cupy.asarray(table)
            stream.synchronize()
    finally:
        capture.held = held
    held.append(out)
    return out


def keep(*arrays: Any) -> None:
    """In a capture, keep arrays as long as the graph lives, for its kernels read them."""
    if capturing():
        capture.held.extend(arrays)
