"""`ProcessGroup`: collectives on arrays, as messages over the links between processes."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy

from ..base import dtypes
from ..base.dtypes import FROM_NUMPY
from ..futures import Future
from .errors import DistBackendError
from .links import Links
from .reductions import ReduceOp, reduced

CALLS = (
    "send", "all_reduce", "broadcast", "all_gather", "gather", "scatter", "reduce", "reduce_scatter", "all_to_all", "barrier", "object",
    "error",
)  # fmt: skip
_SMALL = 1 << 15  # bytes; smaller arrays are exchanged all to all, in one step instead of two
_POINT_TO_POINT = 1 << 63


class Work:
    """An asynchronous collective that writes into `tensors`; call `wait()` before using them."""

    def __init__(self, tensors: list) -> None:
        self._done, self._error = threading.Event(), None
        self._tensors, self._future = tensors, Future()

    def _run(self, fn: Callable[[], None]) -> None:
        try:
            fn()
        except Exception as error:  # re-raised by wait()
            self._error = error
        self._done.set()
        try:
            if self._error is None:
                self._future.set_result(self._tensors)
            else:
                self._future.set_exception(self._error)
        except Exception:  # from a callback: print it and keep the thread running
            traceback.print_exc()

    def wait(self, timeout: Any = None) -> bool:
        """Wait for completion, re-raising any error. Raises DistBackendError after `timeout`, a timedelta."""
        seconds = None if timeout is None else timeout.total_seconds()
        if not self._done.wait(seconds):
            raise DistBackendError(f"wait: not done after {seconds:g} s")
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Return whether it has finished, with or without an error."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Return whether it has finished without an error."""
        return self._done.is_set() and self._error is None

    def result(self) -> list:
        """Return the tensors that it wrote into. Raises RuntimeError if it has not finished."""
        return self._future.value()

    def get_future(self) -> Future:
        """Return a future of the tensors."""
        return self._future

    def exception(self) -> Exception | None:
        """Return the exception, or None."""
        return self._error


class Received(Work):
    """A pending receive; the message may arrive long before `wait` is called.

    `line` queues the receives from the same source with the same tag, which get messages in the order in which they were posted.
    """

    def __init__(self, tensor: Any, arrived: Callable[[], bool], take: Callable[[float | None], int], line: deque[Received]) -> None:
        super().__init__([tensor])
        self._arrived, self._take, self._source, self._line = arrived, take, -1, line
        line.append(self)

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the message has been written to the tensor."""
        while not self._done.is_set():
            self._line[0]._receive(None if timeout is None else timeout.total_seconds())
        return True

    def _receive(self, seconds: float | None) -> None:
        self._source = self._take(seconds)
        self._line.popleft()
        self._run(lambda: None)

    def is_completed(self) -> bool:
        """Return whether the message has arrived, writing it to the tensor if so."""
        while not self._done.is_set() and self._arrived():
            self._line[0]._receive(None)
        return self._done.is_set()

    def source_rank(self) -> int:
        """Wait for the message and return the sender's rank."""
        self.wait()
        return self._source


class ProcessGroup:
    """A group of processes, given by their global ranks in the order of their group ranks."""

    def __init__(self, links: Links, number: int, ranks: list[int], timeout: float, backend: str) -> None:
        self.links, self.number, self.ranks, self.timeout, self.backend = links, number, ranks, timeout, backend
        self._me = ranks.index(links.rank)
        self._count = 0  # collectives called; all processes call the same ones in the same order, so counts match
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue | None = None
        self.awaited: defaultdict[tuple, deque[Received]] = defaultdict(deque)  # (source, tag) -> pending receives

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

    # -- running ------------------------------------------------------------------------------------------------------------

    def tag(self) -> int:
        """Return a tag for the next collective, which may also use the tag after it."""
        with self._lock:
            self._count += 2
            return self._count

    def start(self, fn: Callable[[], None], tensors: list) -> Work:
        """Run `fn`, which writes into `tensors`, in the group's thread after earlier calls."""
        with self._lock:
            if self._jobs is None:
                self._jobs = queue.SimpleQueue()
                threading.Thread(target=_serve, args=(self._jobs,), daemon=True, name="collectives").start()
            work = Work(tensors)
            self._jobs.put((work, fn))
        return work

    def close(self) -> None:
        """Stop the group's thread."""
        if self._jobs is not None:
            self._jobs.put(None)

    # -- messages -------------------------------------------------------------------------------------------------------------

    def _send(self, to: int, tag: int, call: str, array: Any) -> None:
        contiguous = numpy.ascontiguousarray(array).reshape(-1)
        kind = dtypes.ALL.index(FROM_NUMPY[contiguous.dtype])
        data = contiguous.view(numpy.uint8)
        self.links.send(self.ranks[to], self.number, tag, CALLS.index(call), kind, data, self.timeout, call)

    def _receive(
        self, sources: list[int], tag: int, call: str, like: Any = None, timeout: float | None = None
    ) -> tuple[int, numpy.ndarray]:
        """Return `(rank, values)` of a message from one of the ranks, checking its call, and its size and dtype against `like`."""
        peers = [self.ranks[s] for s in sources]
        seconds = self.timeout if timeout is None else timeout
        peer, called, kind, data = self.links.receive(peers, self.number, tag, seconds, call)
        source = self.ranks.index(peer)
        if CALLS[called] == "error":
            raise DistBackendError(data.tobytes().decode())
        if CALLS[called] != call:
            told = f"rank {self._me} called {call} while rank {source} called {CALLS[called]}: all must call the same"
            raise self._refused(source, tag, told)
        values = data.view(dtypes.ALL[kind].numpy)
        if like is not None and (values.dtype != like.dtype or values.size != like.size):
            told = f"{call}: rank {source} sent {values.size} {values.dtype} values where rank {self._me} expected {like.size} {like.dtype}"
            raise self._refused(source, tag, f"{told}: tensors must have the same shape and dtype in all processes")
        return source, values

    def _refused(self, source: int, tag: int, told: str) -> DistBackendError:
        """Return the error of a mismatched collective, also sending it to the sender, who may be waiting for a reply."""
        self._send(source, tag, "error", numpy.frombuffer(told.encode(), numpy.uint8))
        return DistBackendError(told)

    def _from(self, source: int, tag: int, call: str, like: Any = None) -> numpy.ndarray:
        return self._receive([source], tag, call, like)[1]

    @property
    def _others(self) -> list[int]:
        return [(self._me + i) % len(self.ranks) for i in range(1, len(self.ranks))]

    # -- collectives on flat contiguous arrays ------------------------------------------------------------------------------

    def all_reduce(self, flat: numpy.ndarray, op: ReduceOp, tag: int) -> numpy.ndarray:
        """Reduce the arrays of all processes, and return the result in each.

        Small arrays are exchanged all to all. For large ones, process i reduces part i and sends it to all: 2 (n - 1) / n of the array.
        """
        if flat.nbytes <= _SMALL or flat.size < len(self.ranks):
            return reduced(self.all_gather(flat, tag, "all_reduce"), op)
        bounds = [flat.size * i // len(self.ranks) for i in range(len(self.ranks) + 1)]
        parts = [flat[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
        mine = self.reduce_scatter(parts, op, tag, "all_reduce")
        out = numpy.empty_like(flat)
        for other in self._others:
            self._send(other, tag + 1, "all_reduce", mine)
        out[bounds[self._me] : bounds[self._me + 1]] = mine
        for other in self._others:
            out[bounds[other] : bounds[other + 1]] = self._from(other, tag + 1, "all_reduce", parts[other])
        return out

    def reduce_scatter(self, parts: list, op: ReduceOp, tag: int, call: str = "reduce_scatter") -> numpy.ndarray:
        """Reduce part i of all processes on process i."""
        return reduced(self.all_to_all(parts, tag, call, [parts[self._me]] * len(parts)), op)

    def all_to_all(self, parts: list, tag: int, call: str = "all_to_all", like: list | None = None) -> list:
        """Send part i to process i and return the parts received, checked against `like`."""
        for other in self._others:
            self._send(other, tag, call, parts[other])
        return [parts[i] if i == self._me else self._from(i, tag, call, None if like is None else like[i]) for i in range(len(self.ranks))]

    def all_gather(self, flat: numpy.ndarray, tag: int, call: str = "all_gather", same: bool = True) -> list:
        """Return the arrays of all processes by rank."""
        return self.all_to_all([flat] * len(self.ranks), tag, call, [flat] * len(self.ranks) if same else None)

    def broadcast(self, flat: numpy.ndarray, source: int, tag: int, call: str = "broadcast", same: bool = True) -> numpy.ndarray:
        """Return the source's array in all processes."""
        if self._me != source:
            return self._from(source, tag, call, flat if same else None)
        for other in self._others:
            self._send(other, tag, call, flat)
        return flat

    def gather(self, flat: numpy.ndarray, to: int, tag: int, call: str = "gather", same: bool = True) -> list | None:
        """Return the arrays of all processes by rank in process `to`, and None elsewhere."""
        if self._me != to:
            self._send(to, tag, call, flat)
            return None
        return [flat if i == to else self._from(i, tag, call, flat if same else None) for i in range(len(self.ranks))]

    def reduce(self, flat: numpy.ndarray, to: int, op: ReduceOp, tag: int) -> numpy.ndarray | None:
        """Return the reduced array in process `to`, and None elsewhere."""
        parts = self.gather(flat, to, tag, "reduce")
        return None if parts is None else reduced(parts, op)

    def scatter(self, parts: list | None, source: int, tag: int, like: Any, call: str = "scatter") -> numpy.ndarray:
        """Return part i of the source in process i."""
        if self._me != source or parts is None:
            return self._from(source, tag, call, like)
        for other in self._others:
            self._send(other, tag, call, parts[other])
        return parts[source]

    def barrier(self, tag: int, timeout: float) -> None:
        """Wait for all processes."""
        token, end = numpy.zeros(1, numpy.uint8), time.monotonic() + timeout
        for other in self._others:
            self._send(other, tag, "barrier", token)
        for other in self._others:
            self._receive([other], tag, "barrier", timeout=max(0.0, end - time.monotonic()))

    def monitored_barrier(self, timeout: float, wait_all: bool, tag: int) -> None:
        """Wait for all processes; process 0 raises RuntimeError with the ranks that are late."""
        token = numpy.zeros(1, numpy.uint8)
        if self._me != 0:
            self._send(0, tag, "barrier", token)
            self._receive([0], tag, "barrier", timeout=timeout)
            return
        late, end = [], time.monotonic() + timeout
        for i in range(1, len(self.ranks)):
            try:
                self._receive([i], tag, "barrier", timeout=max(0.0, end - time.monotonic()))
            except DistBackendError:
                late.append(i)
                if not wait_all:
                    break
        if late:
            who = f"Rank {late[0]}" if not wait_all else f"Ranks {', '.join(map(str, late))}"
            raise RuntimeError(f"{who} failed to pass monitoredBarrier in {timeout * 1000:.0f} ms")
        for i in range(1, len(self.ranks)):
            self._send(i, tag, "barrier", token)

    # -- point to point ---------------------------------------------------------------------------------------------------------

    def send(self, flat: numpy.ndarray, to: int, tag: int) -> None:
        """Send an array to one process."""
        self._send(to, _POINT_TO_POINT | tag, "send", flat)

    def recv(self, like: numpy.ndarray, source: int | None, tag: int, timeout: float | None = None) -> tuple[int, numpy.ndarray]:
        """Receive `(rank, array)` from one process, or from any if `source` is None."""
        sources = self._others if source is None else [source]
        return self._receive(sources, _POINT_TO_POINT | tag, "send", like, timeout)

    def has(self, source: int | None, tag: int) -> bool:
        """Return whether a message for `recv` has arrived."""
        sources = self._others if source is None else [source]
        return any(self.links.arrived((self.ranks[s], self.number, _POINT_TO_POINT | tag)) for s in sources)


def _serve(jobs: queue.SimpleQueue) -> None:
    while (job := jobs.get()) is not None:
        work, fn = job
        work._run(fn)
