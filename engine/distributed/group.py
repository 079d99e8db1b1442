"""`ProcessGroup`: collectives on arrays, built from the primitives of a communicator.

Every collective begins with a frame that all processes exchange: the call, dtype and size, and the data if it is small. So if the processes
call different collectives, all of them raise before any data is written.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy

from .. import settings
from ..base import dtypes, errors
from ..core import devices
from ..futures import Future
from .communicator import Communicator, Request
from .control import Control
from .errors import DistBackendError, TimedOut
from .mpi import ProcessFailed
from .reductions import AVG, ReduceOp, reduce_rows

Steps = Generator[Request, None, Any]
Line = tuple[CodeType, int] | None  # of the user's program
Put = Callable[[Any, Line], None]  # writes what the steps of a collective return into its tensors

CALLS = (
    "all_reduce", "broadcast", "all_gather", "gather", "scatter", "reduce", "reduce_scatter", "all_to_all", "barrier", "new_group",
    "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list",
)  # fmt: skip
_FRAME = struct.Struct("<7q")  # number, call, reduction, dtype, values, root, this process's own number of values
_OWN = _FRAME.size - 8  # the bytes that all processes must have in common
_FREE = -1  # in place of a number of values that need not be the same
_RIDES = 1024  # bytes of data in the frame
_MANY = 16  # larger groups have no data in the frame, since each process receives all frames
_TEXT = 256
TAGS = 1 << 30  # tags from here on are the group's own
OBJECTS, _BARRIER = TAGS, TAGS + 1
_SPIN, _SPIN_BYTE = 0.002, 2e-9  # seconds of busy waiting after each request, and for each byte
_KEPT = 2000
_ABANDONED: list[Work] = []  # ended by an error, but MPI may still write into their buffers
_FUTURES = threading.Lock()  # so that a work that ends and a future that is made do not miss each other
_NUMBERS = {name: number for number, name in enumerate(CALLS)}
_KINDS = {kind.numpy: number for number, kind in enumerate(dtypes.ALL)}


@dataclass(slots=True)
class Call:
    """The record of a collective, for errors and views."""

    group: int
    number: int
    name: str
    op: str
    dtype: Any  # of NumPy
    count: int
    nbytes: int
    at: Line
    entered: float  # time.time()
    left: float | None = None
    error: str | None = None

    @property
    def place(self) -> str:
        """The line of the user's program, in words."""
        return "?" if self.at is None else errors.where(*self.at)

    def __str__(self) -> str:
        values = "" if self.count == _FREE or self.name == "barrier" else f" of {self.count} {self.dtype} values"
        return f"{self.name}{f'({self.op})' if self.op else ''}{values} at {self.place}"


class Work:
    """An asynchronous collective that writes into `tensors`; call `wait()` before using them."""

    _request: Request | None = None
    _moved = 0.0  # when the last request was made
    _over = False  # nothing is left to do here; after a time-out, others may still need this process
    _done = False
    _error: Exception | None = None
    _future: Future | None = None  # made by `get_future`

    def __init__(
        self, group: ProcessGroup, steps: Steps, tensors: list, call: Call | None = None, peers: Sequence[int] | None = None,
        put: Put | None = None,
    ) -> None:  # fmt: skip
        self._group, self._steps, self._call, self._peers, self._put, self._tensors = group, steps, call, peers, put, tensors
        self._turn = threading.Lock()
        self._limit, self._entered = group.timeout, group.clock()

    def _advance(self, spin: float = 0.0) -> bool:
        """Advance as far as possible, with at most `spin` seconds of busy waiting for a request; return whether it is over."""
        if not self._turn.acquire(blocking=False):
            return self._over
        try:
            while not self._over:
                if self._request is None or self._request.test():
                    self._request, self._moved = next(self._steps), time.monotonic()
                elif time.monotonic() - self._moved < spin:
                    os.sched_yield()
                else:
                    break
        except StopIteration as end:
            self._over = True
            self._finish(end.value)
        except Exception as error:  # raised by wait()
            self._over = True
            self._end(self._group.named(error, self._call))
        finally:
            self._turn.release()
        if not self._over and (lost := self._group.lost(self._call, self._peers)):
            self._over = True
            _ABANDONED.append(self)
            self._end(DistBackendError(f"{self._name}: {lost}"))
        return self._over

    @property
    def _name(self) -> str:
        return self._call.name if self._call is not None else "send"

    def _finish(self, found: Any) -> None:
        """Write what the steps returned into the tensors, and end."""
        try:
            if self._put is not None and self._call is not None:
                self._put(found, self._call.at)
        except Exception as error:
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._done:
            return
        self._error = error
        if self._call is not None:
            self._call.left, self._call.error = time.time(), None if error is None else str(error)
        with _FUTURES:
            self._done = True
            future = self._future
        if future is not None:
            self._fill(future)

    def _fill(self, future: Future) -> None:
        try:
            if self._error is None:
                future.set_result(self._tensors)
            else:
                future.set_exception(self._error)
        except Exception:  # from a callback: print it, the collective itself has ended well
            traceback.print_exc()

    def _move(self, spin: float = 0.0) -> None:
        self._group.advance(spin)

    def wait(self, timeout: Any = None) -> bool:
        """Wait for completion, re-raising any error. Raises DistBackendError after `timeout`, a timedelta (default: the group's)."""
        if not self._done:
            self._wait(None if timeout is None else timeout.total_seconds())
        if self._error is not None:
            raise self._error
        return True

    def _wait(self, timeout: float | None) -> None:
        limit, entered = (self._limit, self._entered) if timeout is None else (timeout, self._group.clock())
        spin = _SPIN + (0.0 if self._call is None else _SPIN_BYTE * self._call.nbytes)  # MPI moves data while it is asked
        pause = 0.00002
        self._move(spin)
        while not self._done:
            if self._group.clock() - entered > limit:
                error = self._group.late(self._call, limit)
                if timeout is None:
                    self._expire(error)
                raise error
            time.sleep(pause)
            pause = min(1.5 * pause, 0.001)
            self._move(spin)

    synchronize = wait

    def _expire(self, error: Exception) -> None:
        """End with an error for the caller; other processes may still need this one's part."""
        self._end(error)

    def is_completed(self) -> bool:
        """Return whether it has finished, with or without an error."""
        if not self._done:
            self._move()
        return self._done

    def is_success(self) -> bool:
        """Return whether it has finished without an error."""
        return self.is_completed() and self._error is None

    def result(self) -> list:
        """Return the tensors that it wrote into. Raises RuntimeError if it has not finished."""
        return self.get_future().value()

    def get_future(self) -> Future:
        """Return a future of the tensors."""
        with _FUTURES:
            made, self._future = self._future is None, self._future or Future()
            done = self._done
        if made and done:
            self._fill(self._future)
        return self._future

    def exception(self) -> Exception | None:
        """Return the exception, or None."""
        return self._error


class Received(Work):
    """A receive; those from the same source with the same tag get messages in the order in which they were posted."""

    def __init__(self, group: ProcessGroup, steps: Steps, tensors: list, peers: Sequence[int], line: deque[Received]) -> None:
        super().__init__(group, steps, tensors, peers=peers)
        self._line, self.source = line, -1
        line.append(self)

    @property
    def _name(self) -> str:
        return "recv"

    def _move(self, spin: float = 0.0) -> None:
        while self._line and self._line[0]._advance(spin):
            self._group.drop(self._line)

    def _expire(self, error: Exception) -> None:
        """Take no message any more, unless one is arriving."""
        with self._turn:
            self._over = self._over or getattr(self._request, "source", -1) < 0
            self._end(error)
        self._move()

    def source_rank(self) -> int:
        """Wait for the message and return the sender's rank."""
        self.wait()
        return self.source


class ProcessGroup:
    """A group of processes, given by their global ranks in the order of their group ranks."""

    def __init__(
        self, comm: Communicator, frames: Communicator, control: Control | None, number: int, ranks: list[int], timeout: float, backend: str
    ) -> None:
        self.comm, self.frames, self.control = comm, frames, control
        self.number, self.ranks, self.timeout, self.backend = number, ranks, timeout, backend
        self._me, self._process = comm.rank, os.getpid()
        self._count = 0  # collectives called
        self._room = _RIDES if len(ranks) <= _MANY else 0
        self._lock = threading.Lock()
        self._queue: deque[Work] = deque()
        self._loose: list[Work] = []  # sends and receives that are in progress
        self._lines: defaultdict[tuple, deque[Received]] = defaultdict(deque)  # (source, tag) -> pending receives
        self.calls: deque[Call] = deque(maxlen=_KEPT)

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self._me

    def size(self) -> int:
        """Return the number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the backend's name."""
        return self.backend

    def __repr__(self) -> str:
        return f"ProcessGroup(backend={self.backend!r}, ranks={self.ranks}, rank={self._me})"

    def of(self, array: Any) -> Any:
        """Return the flat array to communicate, without a copy if it is contiguous."""
        return flat(array)

    def empty(self, n: int, like: Any) -> Any:
        """Return an uninitialized flat array for values like those of another."""
        return numpy.empty(n, like.dtype)

    def carrier(self, array: Any) -> Communicator:
        """Return the communicator that carries an array."""
        return self.comm

    # -- running -----------------------------------------------------------------------------------------------------------------

    def start(self, name: str, steps: Steps, tensors: list, op: ReduceOp | None = None, like: Any = None, put: Put | None = None) -> Work:
        """Begin a collective that writes into `tensors` by `put(what the steps return, the line)`.

        `op` and `like`, an array, are for its record.
        """
        if os.getpid() != self._process:
            raise RuntimeError(f"{name}: a forked process, such as a worker of a DataLoader, can't call collectives of its parent's group")
        kind, count, nbytes = (None, _FREE, 0) if like is None else (like.dtype, like.size, like.nbytes)
        frame = errors.user_frame(3)
        line = None if frame is None else (frame.f_code, frame.f_lineno)
        with self._lock:
            self._count += 1
            call = Call(self.number, self._count, name, "" if op is None else op._name_, kind, count, nbytes, line, time.time())
            self.calls.append(call)
            work = Work(self, steps, tensors, call, put=put)
            self._queue.append(work)
            first = len(self._queue) == 1
            if not first:  # send its frame now; the rest follows once all earlier ones are over
                work._request, work._moved = next(steps, None), time.monotonic()
        if first:
            self.advance()
        return work

    def advance(self, spin: float = 0.0) -> bool:
        """Advance the collectives, in order, with at most `spin` seconds of busy waiting for each; return whether any is left."""
        while self._queue:
            try:
                head = self._queue[0]
            except IndexError:  # another thread has just ended it
                continue
            if not head._advance(spin):
                return True
            self.drop(self._queue, head)
        return False

    def advance_all(self) -> bool:
        """Advance collectives, sends and receives; return whether any is left."""
        with self._lock:
            loose = list(self._loose)
        for work in loose:
            work._move() if isinstance(work, Received) else work._advance()
        with self._lock:
            self._loose = [work for work in self._loose if not work._over]
        return self.advance() or bool(self._loose)

    def drop(self, line: deque, head: Any = None) -> None:
        """Remove the first item of a queue, unless another thread has."""
        with self._lock:
            if line and (line[0] is head if head is not None else line[0]._over):
                line.popleft()

    def clock(self) -> float:
        """Return seconds of the clock that time-outs go by."""
        return time.monotonic() if self.control is None else self.control.clock()

    def wake(self) -> None:
        """Have the control thread advance asynchronous collectives."""
        if self.control is not None:
            self.control.wake()

    def rebuild(self, comm: Communicator, frames: Communicator, control: Control | None) -> None:
        """Go on with the processes of new communicators, under new ranks."""
        self._lines.clear()
        self.comm, self.frames, self.control = comm, frames, control
        self.ranks, self._me, self._count = list(range(comm.size)), comm.rank, 0

    def abort(self) -> None:
        """Discard what is in progress, and end it with an error in the other processes."""
        self.close()
        self.comm.abort()
        self.frames.abort()

    def close(self) -> None:
        """Discard what is in progress."""
        _ABANDONED.extend(work for work in (*self._queue, *self._loose) if not work._over)
        self._queue.clear()
        self._loose.clear()

    # -- failures ----------------------------------------------------------------------------------------------------------------

    def lost(self, call: Call | None = None, peers: Sequence[int] | None = None) -> str | None:
        """Return why a call can't finish, or None: a process of the group ended before calling it, or all `peers` of a message have ended.

        The first process to end is named first, since it is often the cause.
        """
        if self.control is None or not self.control.gone:
            return None
        gone = dict(self.control.gone)
        number = None if call is None else call.number
        mine = [r for r in (self.ranks if peers is None else peers) if r in gone and gone[r].before(self.number, number)]
        if not mine or (peers is not None and len(mine) < len(peers)):
            return None
        first = next(iter(gone))
        last = next(r for r in gone if r in mine)
        return f"rank {first} {gone[first].how}" + ("" if first == last else f"; and after it, rank {last} {gone[last].how}")

    def named(self, error: Exception, call: Call | None) -> Exception:
        """Return the error with the rank of the ended process, which MPI does not name."""
        if not isinstance(error, ProcessFailed) or self.control is None:
            return error
        end = time.monotonic() + 2.0
        while not (lost := self.lost(call)) and time.monotonic() < end:
            self.control.look()
            time.sleep(0.005)
        name = "send or recv" if call is None else call.name
        return DistBackendError(f"{name}: {lost or 'a process of the group has ended'}")

    def late(self, call: Call | None, seconds: float) -> TimedOut:
        """Return the error after a time-out, with what the other processes are doing."""
        me = self.ranks[self._me]
        if self.control is None:
            return TimedOut(f"rank {me} timed out after {seconds:g} s")
        others = [r for r in self.ranks if r != me]
        states = self.control.ask(others)
        missing = [r for r in others if call is None or r not in states or states[r]["calls"].get(str(self.number), 0) < call.number]
        doing = [f"rank {r} {states[r]['doing'] if r in states else 'gives no answer'}" for r in missing or others]
        what = "send or recv" if call is None else f"{call.name} ({call.number})"
        who = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {', '.join(map(str, missing or others))}"
        where = "" if call is None else f" at {call.place}"
        told = f"{what}: rank {me} timed out after {seconds:g} s, waiting for {who}{where}; {'; '.join(doing)}"
        return TimedOut(told)

    def called(self) -> int:
        """Return the number of collectives that this process has called."""
        return self._count

    def doing(self) -> str:
        """Return what this process is doing in this group, for errors in other processes."""
        if not self.calls:
            return "has called no collective yet"
        last = self.calls[-1]
        if last.left is None:
            return f"is in {last.name} ({last.number}) since {time.time() - last.entered:.1f} s, {last}"
        return f"is in no collective; its last was {last.number}, {last}, {time.time() - last.left:.1f} s ago"

    # -- the frame ---------------------------------------------------------------------------------------------------------------

    def _meet(
        self, name: str, array: Any = None, op: ReduceOp | None = None, root: int = -1, own: bool = False, rides: bool = True,
        count: int = 0,
    ) -> Generator[Request, None, tuple[list[int], Any]]:  # fmt: skip
        """Exchange frames. Returns the number of values in each process, and rows of data if it was small enough for the frames, else None.

        With `own`, these numbers may differ. Raises DistBackendError in all processes if the calls differ.
        """
        size, n = count if array is None else array.size, len(self.ranks)
        if n == 1:
            return [size], None if array is None else array[None]
        kind = -1 if array is None else _KINDS[array.dtype]
        frame = _FRAME.pack(self._count, _NUMBERS[name], -1 if op is None else op._value_, kind, _FREE if own else size, root, size)
        data = array if rides and isinstance(array, numpy.ndarray) else None
        whole = frame if data is None or data.nbytes > self._room else frame + data.tobytes()
        width, call, common = _FRAME.size + self._room, self.calls[-1], frame[:_OWN]
        found = bytearray(n * width)
        yield self.frames.all_gather(whole.ljust(width, b"\0"), found)
        starts = range(0, n * width, width)
        for start in starts:
            if not found.startswith(common, start):
                yield from self._differ(call)
        sizes = [_FRAME.unpack_from(found, start)[-1] for start in starts] if own else [size] * n
        if data is None or max(sizes) * data.itemsize > self._room:
            return sizes, None
        if own:
            return sizes, [numpy.frombuffer(found, data.dtype, m, start + _FRAME.size) for m, start in zip(sizes, starts, strict=True)]
        return sizes, numpy.ndarray((n, size), data.dtype, found, _FRAME.size, (width, data.itemsize))

    def _differ(self, call: Call) -> Generator[Request, None, None]:
        """Raise an error with the calls of all processes and their lines."""
        mine = numpy.zeros(_TEXT, numpy.uint8)
        text = f"{call.number}: {call}".encode()[:_TEXT]
        mine[: len(text)] = numpy.frombuffer(text, numpy.uint8)
        found = numpy.empty(_TEXT * len(self.ranks), numpy.uint8)
        yield self.frames.all_gather(mine, found)
        texts = [found[i * _TEXT : (i + 1) * _TEXT].tobytes().rstrip(b"\0").decode(errors="replace") for i in range(len(self.ranks))]
        alike: dict[str, list[int]] = {}
        for rank, text in zip(self.ranks, texts, strict=True):
            alike.setdefault(text.partition(": ")[2], []).append(rank)
        if len(alike) == 1:
            alike = {text: [rank] for rank, text in zip(self.ranks, texts, strict=True)}
        calls = "; ".join(f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))} called {text}" for text, ranks in alike.items())
        error = DistBackendError(
            f"the processes called different collectives: {calls}. All must call the same, in the same order, with tensors of the same "
            "size and dtype"
        )
        error.calls = calls
        raise error

    # -- collectives on flat contiguous arrays -----------------------------------------------------------------------------------

    def all_reduce(self, flat: Any, op: ReduceOp, name: str = "all_reduce", root: int = -1) -> Steps:
        """Reduce the arrays of all processes in place; in rank order if they are small or ops must be deterministic."""
        _, rode = yield from self._meet(name, flat, op, root)
        if rode is not None:
            _in_order(rode, op, flat)
        elif settings.are_deterministic_algorithms_enabled() and isinstance(flat, numpy.ndarray):
            mine = yield from self._part(flat, op)
            sizes = _parts(flat.size, len(self.ranks))
            yield self.comm.all_gather(mine, flat, [n * flat.itemsize for n in sizes])
        else:
            array, how = _for_mpi(flat, op)
            carrier = self.carrier(array)
            step = max(1, carrier.part // array.itemsize)
            for start in range(0, array.size, step):
                yield carrier.all_reduce(array[start : start + step], how)
            if op is AVG:
                array /= len(self.ranks)
            if array.dtype.itemsize != flat.dtype.itemsize:
                flat[...] = array

    def _part(self, flat: Any, op: ReduceOp) -> Steps:
        """Reduce this process's part of an array, in rank order."""
        sizes = _parts(flat.size, len(self.ranks))
        mine = sizes[self._me]
        out = numpy.empty(mine * len(self.ranks), flat.dtype)
        yield self.comm.all_to_all(flat, out, sizes, [mine] * len(self.ranks))
        return _in_order(out.reshape(len(self.ranks), mine), op)

    def reduce(self, flat: Any, to: int, op: ReduceOp) -> Steps:
        """Reduce the arrays of all processes into that of process `to`."""
        copy = flat if self._me == to else flat.copy()
        yield from self.all_reduce(copy, op, "reduce", to)

    def reduce_scatter(self, flat: Any, op: ReduceOp) -> Steps:
        """Reduce the arrays of all processes, and return part i in process i."""
        _, rode = yield from self._meet("reduce_scatter", flat, op)
        n = flat.size // len(self.ranks)
        if rode is not None:
            return _in_order(rode[:, self._me * n : (self._me + 1) * n], op)
        if settings.are_deterministic_algorithms_enabled() and isinstance(flat, numpy.ndarray):
            return (yield from self._part(flat, op))
        array, how = _for_mpi(flat, op)
        out = self.empty(n, array)
        yield self.carrier(array).reduce_scatter(array, out, how)
        return (out / len(self.ranks) if op is AVG else out).astype(flat.dtype, copy=False)

    def all_to_all(self, flat: Any, out: Any, counts: Sequence[int], out_counts: Sequence[int]) -> Steps:
        """Send `counts[i]` values to process i, and write `out_counts[i]` values from it to `out`."""
        n = len(self.ranks)
        table = numpy.array([_KINDS[flat.dtype], *counts, *out_counts], numpy.int64)
        _, rode = yield from self._meet("all_to_all", table)
        if rode is not None:
            rows = rode
        else:
            whole = numpy.empty((n, 2 * n + 1), numpy.int64)
            yield self.comm.all_gather(table, whole.reshape(-1))
            rows = list(whole)
        for i, sender in enumerate(rows):
            for j, receiver in enumerate(rows):
                sent, expected = sender[1 + j], receiver[1 + n + i]
                if sent != expected or sender[0] != receiver[0]:
                    kinds = dtypes.ALL[sender[0]], dtypes.ALL[receiver[0]]
                    a, b = (f"{count} {kind.numpy.name}" for count, kind in zip((sent, expected), kinds, strict=True))
                    raise DistBackendError(f"all_to_all: rank {self.ranks[i]} sent {a} values where rank {self.ranks[j]} expected {b}")
        yield self.comm.all_to_all(flat, out, counts, out_counts)

    def all_gather(self, flat: Any, out: Any) -> Steps:
        """Write the arrays of all processes to `out`, ordered by rank."""
        _, rode = yield from self._meet("all_gather", flat)
        if rode is not None:
            numpy.concatenate(rode, out=out)
        else:
            yield self.carrier(flat).all_gather(flat, out)

    def broadcast(self, flat: Any, source: int) -> Steps:
        """Copy the source's array to all processes, in place."""
        _, rode = yield from self._meet("broadcast", flat, root=source)
        if rode is None:
            yield self.carrier(flat).broadcast(flat, source)
        elif self._me != source:
            flat[...] = rode[source]

    def gather(self, flat: Any, to: int) -> Steps:
        """Return the arrays of all processes, ordered by rank, in process `to`, and None elsewhere."""
        sizes, rode = yield from self._meet("gather", flat, root=to)
        return (yield from self._to_one(flat, to, sizes, rode))

    def _to_one(self, flat: Any, to: int, sizes: list[int], rode: Any) -> Steps:
        mine = self._me == to
        if rode is not None:
            return list(rode) if mine else None
        out = numpy.empty(sum(sizes) if mine else 0, flat.dtype)
        nothing = [0] * len(self.ranks)
        yield self.comm.all_to_all(flat, out, [flat.size if i == to else 0 for i in range(len(sizes))], sizes if mine else nothing)
        return _cut(out, sizes) if mine else None

    def scatter(self, flat: Any, source: int, out: Any) -> Steps:
        """Write part i of the source's array to `out` in process i."""
        yield from self._meet("scatter", out, root=source, rides=False)
        n, nothing = out.size, [0] * len(self.ranks)
        sent = flat if self._me == source else numpy.empty(0, out.dtype)
        counts = [n] * len(self.ranks) if self._me == source else nothing
        yield self.comm.all_to_all(sent, out, counts, [n if i == source else 0 for i in range(len(self.ranks))])

    def barrier(self, name: str = "barrier", count: int = 0) -> Steps:
        """Wait until all processes have called it."""
        yield from self._meet(name, count=count)

    # -- bytes of any number, for objects ----------------------------------------------------------------------------------------

    def gather_bytes(self, data: numpy.ndarray, to: int) -> Steps:
        """Return the bytes of all processes in process `to`, and None elsewhere."""
        sizes, rode = yield from self._meet("gather_object", data, root=to, own=True)
        return (yield from self._to_one(data, to, sizes, rode))

    def all_gather_bytes(self, data: numpy.ndarray) -> Steps:
        """Return the bytes of all processes."""
        sizes, rode = yield from self._meet("all_gather_object", data, own=True)
        if rode is not None:
            return rode
        out = numpy.empty(sum(sizes), numpy.uint8)
        yield self.comm.all_gather(data, out, sizes)
        return _cut(out, sizes)

    def broadcast_bytes(self, data: numpy.ndarray, source: int) -> Steps:
        """Return the source's bytes."""
        sizes, rode = yield from self._meet("broadcast_object_list", data if self._me == source else data[:0], root=source, own=True)
        if rode is not None:
            return rode[source]
        out = data if self._me == source else numpy.empty(sizes[source], numpy.uint8)
        yield self.comm.broadcast(out, source)
        return out

    def scatter_bytes(self, parts: list[numpy.ndarray] | None, source: int) -> Steps:
        """Return part i of the source in process i."""
        n = len(self.ranks)
        counts = numpy.array([part.size for part in parts or ()] or [0] * n, numpy.int64)
        _, rode = yield from self._meet("scatter_object_list", counts, root=source)
        if rode is not None:
            counts = rode[source]
        else:
            yield self.comm.broadcast(counts, source)
        mine = self._me == source and parts is not None
        out = numpy.empty(counts[self._me], numpy.uint8)
        sent = numpy.concatenate(parts) if parts is not None and mine else numpy.empty(0, numpy.uint8)
        sizes = [out.size if i == source else 0 for i in range(n)]
        yield self.comm.all_to_all(sent, out, counts.tolist() if mine else [0] * n, sizes)
        return out

    # -- point to point ----------------------------------------------------------------------------------------------------------

    def send(self, flat: numpy.ndarray, to: int, tag: int, tensors: list) -> Work:
        """Send an array to one process."""

        def steps() -> Steps:
            yield self.comm.send(flat, to, tag)

        return self._begun(Work(self, steps(), tensors, peers=[self.ranks[to]]))

    def recv(self, source: int | None, tag: int, use: Callable[[int, numpy.ndarray], None], tensors: list) -> Received:
        """Receive an array from one process, or from any if `source` is None, and call `use(rank, array)`."""
        sources = [i for i in range(len(self.ranks)) if i != self._me] if source is None else [source]

        def steps() -> Steps:
            request = self.comm.recv(sources, tag)
            yield request
            work.source = self.ranks[request.source]
            use(request.source, request.array)

        work = Received(self, steps(), tensors, [self.ranks[i] for i in sources], self._lines[source, tag])
        self._begun(work)
        return work

    def _begun(self, work: Work) -> Work:
        with self._lock:
            self._loose.append(work)
        work._move() if isinstance(work, Received) else work._advance()
        if not work._over:
            self.wake()
        return work

    def monitored_barrier(self, timeout: float, wait_all: bool) -> None:
        """Wait for all processes; process 0 raises RuntimeError with the ranks that are late."""
        token = numpy.zeros(1, numpy.uint8)

        def nothing(source: int, array: numpy.ndarray) -> None:
            return None

        if self._me != 0:
            self.send(token, 0, _BARRIER, [])
            work = self.recv(0, _BARRIER, nothing, [])
            work._limit = timeout
            work.wait()
            return
        late, end = [], self.clock() + timeout
        for i in range(1, len(self.ranks)):
            work = self.recv(i, _BARRIER, nothing, [])
            work._limit = max(0.0, end - self.clock())
            try:
                work.wait()
            except DistBackendError:
                late.append(self.ranks[i])
                if not wait_all:
                    break
        if late:
            who = f"Rank {late[0]}" if not wait_all else f"Ranks {', '.join(map(str, late))}"
            raise RuntimeError(f"{who} failed to pass monitoredBarrier in {timeout * 1000:.0f} ms")
        for i in range(1, len(self.ranks)):
            self.send(token, i, _BARRIER, [])


def flat(array: Any) -> numpy.ndarray:
    """Return the flattened array on the host."""
    on_host = array if isinstance(array, numpy.ndarray) else devices.move(array, devices.CPU)
    return (on_host if on_host.flags.c_contiguous else numpy.ascontiguousarray(on_host)).reshape(-1)


def _parts(n: int, size: int) -> list[int]:
    """Return lengths of `size` parts of n values, as equal as possible."""
    return [n * (i + 1) // size - n * i // size for i in range(size)]


def _cut(array: numpy.ndarray, sizes: Sequence[int]) -> list[numpy.ndarray]:
    return numpy.split(array, numpy.cumsum(sizes)[:-1])


def _in_order(rows: Any, op: ReduceOp, out: Any = None) -> Any:
    """Reduce rows in rank order, so that results are bitwise equal in all processes and all runs, into `out` or a new array."""
    array, how = _for_mpi(rows, op)
    out = rows[0].copy() if out is None else out
    total = out if array is rows else array[0].copy()
    reduce_rows(array, how, total)
    if total is not out:
        out[...] = total
    return out


def _for_mpi(flat: Any, op: ReduceOp) -> tuple[Any, ReduceOp]:
    """Return an array and a reduction that MPI supports: 16-bit floats are widened, bools are bytes."""
    if flat.dtype.kind == "b":
        return flat.view(numpy.uint8), {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}.get(op, op)
    if flat.dtype.itemsize <= 2 and flat.dtype.kind not in "iu":
        return flat.astype(numpy.float32), op
    return flat, op
