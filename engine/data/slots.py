"""Slots: segments of shared memory into which a worker writes batches, reused once the main process has freed the arrays there."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import sys
import weakref
from collections import deque
from typing import Any

import numpy

from ..base import dtypes
from ..core.tensor import Tensor
from ..multiprocessing.memory import ALIGN, Segment

_SMALL = 1 << 15  # bytes; smaller batches go through the pipe, which is faster
_MOST = 16  # slots per worker; if the program keeps more batches than that, the rest go through the pipe


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _tensor(kind: type | None, dtype: str, shape: tuple, data: Any) -> Tensor:
    out = object.__new__(kind or Tensor)
    out.array, out.node = numpy.frombuffer(data, dtypes.BY_NAME[dtype].numpy).reshape(shape), None
    return out


class _Pickler(pickle.Pickler):
    """Pickles the data of CPU tensors without `requires_grad` as out-of-band buffers."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor) or obj.is_cuda or obj.requires_grad:
            return NotImplemented
        data = numpy.ascontiguousarray(obj.array).reshape(-1).view(numpy.uint8)
        return _tensor, (None if type(obj) is Tensor else type(obj), obj.dtype.name, obj.array.shape, pickle.PickleBuffer(data))


def _packed(x: Any) -> tuple[bytes, list]:
    """Return a pickle and its out-of-band buffers, one per array."""
    buffers: list = []
    out = io.BytesIO()
    try:
        _Pickler(out, 5, buffer_callback=buffers.append).dump(x)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle  # for a class defined in a notebook

        return cloudpickle.dumps(x), []
    return out.getvalue(), [b.raw() for b in buffers]


def send_descriptor(pipe: Any, fd: int) -> None:
    """Send a file descriptor through a `Pipe()`; POSIX only.

    `reduction.send_handle` waits for an answer in the same pipe (from Python 3.14 on, and on macOS), which may be the next task.
    """
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
        socket.send_fds(end, [b"F"], [fd])


def receive_descriptor(pipe: Any) -> int:
    """Receive what `send_descriptor` has sent. Raises EOFError if the pipe is closed."""
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
        _, fds, _, _ = socket.recv_fds(end, 1, 1)
    if not fds:
        raise EOFError
    return fds[0]


class Message:
    """A batch in transit: its pickle, and the location of its arrays."""

    __slots__ = ("number", "pickled", "inline", "slot", "size", "places", "dropped")

    def __init__(self, number: int, pickled: bytes) -> None:
        self.number, self.pickled = number, pickled
        self.inline: list[bytearray] = []
        self.slot, self.size = -1, 0  # slot number, or -1; the slot's size if it is new
        self.places: tuple[tuple[int, int], ...] = ()  # (start, end) of each array
        self.dropped: list[int] = []  # slots that will not be used again


class Slots:
    """The worker's side: writes batches into slots. `empty` allocates in the slot of the next batch, which saves a copy."""

    def __init__(self, share: bool) -> None:
        self.share = share and os.name == "posix"
        self._segments: dict[int, Segment] = {}
        self._free: list[int] = []
        self._dropped: list[int] = []  # not yet reported to the main process
        self._count, self._usual = 0, 0
        self._current, self._end = -1, 0

    def freed(self, slots: list[int]) -> None:
        """Mark slots as free: the main process no longer uses the arrays in them."""
        self._free += slots

    def begin(self) -> None:
        """Begin a batch: reserve a slot of the previous batch's size for it, if possible."""
        if self._current < 0 and self._usual:
            self._current = self._take(self._usual)
        self._end = 0

    def _take(self, size: int) -> int:
        """Return a slot of at least this size, preferably a free one; -1 if no more can be created."""
        for slot in self._free:
            if len(self._segments[slot]) >= size and sys.getrefcount(self._segments[slot]) == 2:  # no array in this process uses it
                self._free.remove(slot)
                return slot
        if len(self._segments) >= _MOST:
            if not self._free:
                return -1
            self._dropped.append(self._free.pop(0))  # too small: the batches have grown
            del self._segments[self._dropped[-1]]
        try:
            self._segments[self._count] = Segment.new(size)
        except OSError:  # no memory or descriptors left: use the pipe
            return -1
        self._count += 1
        return self._count - 1

    def empty(self, shape: tuple, dtype: Any) -> numpy.ndarray:
        """Return an uninitialized array, in the current slot unless it is small or does not fit."""
        size = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
        start = self._end
        if self._current < 0 or start + size > len(self._segments[self._current]) or size < ALIGN:
            return numpy.empty(shape, dtype)
        self._end = start + _aligned(size)
        return self._segments[self._current].array(shape, dtype, start)

    def lay(self, number: int, batch: Any) -> tuple[bytes, Segment | None]:
        """Return the pickled message that carries a batch to the main process, and the slot's segment if it is new."""
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
        """Return the buffers that are already in the slot, as {position in `buffers`: start}."""
        found = {}
        for i, buffer in enumerate(buffers):
            if len(buffer):
                start = numpy.frombuffer(buffer, numpy.uint8).__array_interface__["data"][0] - segment.address
                if start >= 0 and start + len(buffer) <= len(segment):
                    found[i] = start
        return found


class Leases:
    """The main process's side: reads batches in place, and records which slots are free because their arrays are gone."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}
        self._held: dict[int, tuple[Any, int]] = {}  # id of a weak reference to an array -> the reference, the array's slot
        self._gone: deque[Any] = deque()  # weak references whose arrays are gone

    def returned(self) -> list[int]:
        """Return the slots freed since the last call."""
        out = []
        while self._gone:
            out.append(self._held.pop(id(self._gone.popleft()))[1])
        return out

    def read(self, message: Message, pipe: Any) -> tuple[int, Any]:
        """Return `(number, batch)` from a message; the descriptor of a new slot is received from `pipe`."""
        for slot in message.dropped:
            self._maps.pop(slot, None)  # missing if it was never used
        if message.slot < 0:
            return pickle.loads(message.pickled, buffers=message.inline)
        if message.size:
            fd = receive_descriptor(pipe)
            try:
                self._maps[message.slot] = mmap.mmap(fd, message.size)
            finally:
                os.close(fd)  # mmap has duplicated it
        whole = numpy.frombuffer(self._maps[message.slot], numpy.uint8)
        # the callback is not Python code, in which a KeyboardInterrupt would be printed and lost
        ref = weakref.ref(whole, self._gone.append)
        self._held[id(ref)] = ref, message.slot
        return pickle.loads(message.pickled, buffers=[memoryview(whole[a:b]) for a, b in message.places])
