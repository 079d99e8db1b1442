"""Slots: pieces of shared memory in which a worker lays its batches, used again when the main process has let go of what lay there."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import weakref
from collections import deque
from multiprocessing import reduction
from typing import Any

import numpy

from ..base import dtypes
from ..core.tensor import Tensor
from ..multiprocessing.memory import ALIGN, Segment

_SMALL = 1 << 15  # bytes: below, a batch goes through the pipe, which is quicker
_MOST = 16  # slots of one worker; whoever keeps more batches than that gets the rest through the pipe


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _tensor(kind: type | None, dtype: str, shape: tuple, data: Any) -> Tensor:
    out = object.__new__(kind or Tensor)
    out.array, out.node = numpy.frombuffer(data, dtypes.BY_NAME[dtype].numpy).reshape(shape), None
    return out


class _Pickler(pickle.Pickler):
    """Tensors as their bytes, which travel beside the pickle."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor) or obj.is_cuda or obj.requires_grad:
            return NotImplemented
        data = numpy.ascontiguousarray(obj.array).reshape(-1).view(numpy.uint8)
        return _tensor, (None if type(obj) is Tensor else type(obj), obj.dtype.name, obj.array.shape, pickle.PickleBuffer(data))


def _packed(x: Any) -> tuple[bytes, list]:
    """A pickle, and the memory of the arrays that are in it."""
    buffers: list = []
    out = io.BytesIO()
    try:
        _Pickler(out, 5, buffer_callback=buffers.append).dump(x)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle  # a class of a notebook's

        return cloudpickle.dumps(x), []
    return out.getvalue(), [b.raw() for b in buffers]


class Message:
    """A batch on its way: its pickle, and where its arrays lie."""

    __slots__ = ("number", "pickled", "inline", "slot", "size", "places", "dropped")

    def __init__(self, number: int, pickled: bytes) -> None:
        self.number, self.pickled = number, pickled
        self.inline: list[bytearray] = []
        self.slot, self.size = -1, 0  # the slot's number; its size when it is new
        self.places: tuple[tuple[int, int], ...] = ()  # (start, end) of each array
        self.dropped: list[int] = []  # slots that nobody will lay anything into again


class Slots:
    """A worker's side: it lays batches down. `empty` gives memory in the slot that the next batch will go into."""

    def __init__(self, share: bool) -> None:
        self.share = share and os.name == "posix"
        self._segments: dict[int, Segment] = {}
        self._free: list[int] = []
        self._dropped: list[int] = []  # of which the main process does not know yet
        self._count, self._usual = 0, 0
        self._current, self._end = -1, 0

    def freed(self, slots: list[int]) -> None:
        """The main process has let go of what lay in these."""
        self._free += slots

    def begin(self) -> None:
        """Another batch: find a slot of the usual size for it, if there is one."""
        if self._current < 0 and self._usual:
            self._current = self._take(self._usual)
        self._end = 0

    def _take(self, size: int) -> int:
        """A slot of at least this size: a free one, else a new one; -1 when there may be no more."""
        for slot in self._free:
            if len(self._segments[slot]) >= size and sys.getrefcount(self._segments[slot]) == 2:  # nothing here lies in it still
                self._free.remove(slot)
                return slot
        if len(self._segments) >= _MOST:
            if not self._free:
                return -1
            self._dropped.append(self._free.pop(0))  # too small: the batches have grown
            del self._segments[self._dropped[-1]]
        try:
            self._segments[self._count] = Segment.new(size)
        except OSError:  # no memory or no descriptors: the pipe will do
            return -1
        self._count += 1
        return self._count - 1

    def empty(self, shape: tuple, dtype: Any) -> numpy.ndarray:
        """An array whose numbers are not set, in the slot while there is room."""
        size = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
        start = self._end
        if self._current < 0 or start + size > len(self._segments[self._current]) or size < ALIGN:
            return numpy.empty(shape, dtype)
        self._end = start + _aligned(size)
        return self._segments[self._current].array(shape, dtype, start)

    def lay(self, number: int, batch: Any) -> tuple[bytes, Segment | None]:
        """The message that brings a batch to the main process, and its slot when that is new there."""
        pickled, buffers = _packed((number, batch))
        message = Message(number, pickled)
        size = sum(_aligned(len(b)) for b in buffers)
        new = None
        if self.share and size >= _SMALL:
            new = self._lay(message, buffers, size)
        if message.slot < 0:
            message.inline = [bytearray(b) for b in buffers]
        message.dropped, self._dropped = self._dropped, []
        return pickle.dumps(message, 5), new

    def _lay(self, message: Message, buffers: list, size: int) -> Segment | None:
        slot, old, self._current = self._current, -1, -1
        there = {} if slot < 0 else self._within(self._segments[slot], buffers)
        missing = sum(_aligned(len(b)) for i, b in enumerate(buffers) if i not in there)
        if slot >= 0 and self._end + missing > len(self._segments[slot]):
            old, slot = slot, -1  # the batch has grown
        if slot < 0:
            slot, there, self._end = self._take(size), {}, 0
        if old >= 0:
            self._free.append(old)
        self._usual = size
        if slot < 0:
            return None
        segment, places = self._segments[slot], []
        whole = memoryview(segment)
        for i, buffer in enumerate(buffers):
            start = there.get(i, self._end)
            if i not in there:
                whole[start : start + len(buffer)] = buffer
                self._end += _aligned(len(buffer))
            places.append((start, start + len(buffer)))
        message.slot, message.places = slot, tuple(places)
        if not hasattr(segment, "known"):
            segment.known = True  # type: ignore[attr-defined]
            message.size = len(segment)
            return segment
        return None

    def _within(self, segment: Segment, buffers: list) -> dict[int, int]:
        """Which arrays lie in the slot already, and where."""
        found = {}
        for i, buffer in enumerate(buffers):
            if len(buffer):
                start = numpy.frombuffer(buffer, numpy.uint8).__array_interface__["data"][0] - segment.address
                if start >= 0 and start + len(buffer) <= len(segment):
                    found[i] = start
        return found


class Leases:
    """The main process's side: it sees batches where they lie, and hears when the last array of one is gone."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}
        self._held: dict[int, tuple[Any, int]] = {}  # by identity: a weak reference, and the slot that its array lies in
        self._gone: deque[Any] = deque()  # references whose arrays are gone

    def returned(self) -> list[int]:
        """The slots that were let go since last asked."""
        out = []
        while self._gone:
            out.append(self._held.pop(id(self._gone.popleft()))[1])
        return out

    def read(self, message: Message, pipe: Any) -> tuple[int, Any]:
        """`(number, batch)` of a message."""
        for slot in message.dropped:
            self._maps.pop(slot, None)  # it may have stayed empty
        if message.slot < 0:
            return pickle.loads(message.pickled, buffers=message.inline)
        if message.size:
            fd = reduction.recv_handle(pipe)  # type: ignore[attr-defined]
            try:
                self._maps[message.slot] = mmap.mmap(fd, message.size)
            finally:
                os.close(fd)  # the map has a descriptor of its own
        whole = numpy.frombuffer(self._maps[message.slot], numpy.uint8)
        # the callback is no Python code: an interrupt that came in it would be printed and lost
        ref = weakref.ref(whole, self._gone.append)
        self._held[id(ref)] = ref, message.slot
        return pickle.loads(message.pickled, buffers=[memoryview(whole[a:b]) for a, b in message.places])
