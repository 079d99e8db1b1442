"""Devices, streams, events and graphs of imaginary GPUs, with a clock.

The host does all work at once, but in the order of the clock: a submission takes the host 1 us, and the work 10 us of its stream's time,
after what the stream waits for. So a stream is done, an event has a time, and two streams overlap as on a GPU, the same in every run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import cupy as real
import syncs
from syncs import record

SUBMITTED, WORKED = 1e-3, 10e-3  # milliseconds of the host for a submission, and of a stream for its work
UNSUPPORTED, INVALIDATED, UNJOINED, IMPLICIT, CAPTURED_EVENT = 900, 901, 904, 906, 907  # CUDA's errors of captures

count = 1  # the number of GPUs
_local = threading.local()
_now = [0.0]  # the host's clock, in milliseconds


def failure(status: int) -> Exception:
    """The error that CuPy raises for one of CUDA's error codes."""
    return real.cuda.runtime.CUDARuntimeError(status)


def current_device() -> int:
    """The GPU on which this thread creates arrays and runs kernels."""
    return getattr(_local, "device", 0)


class Device:
    """One of the GPUs, by default the current one."""

    def __init__(self, device: Any = None) -> None:
        self.id = current_device() if device is None else int(getattr(device, "id", device))

    def __enter__(self) -> Device:
        self._outer = [*getattr(self, "_outer", ()), current_device()]
        return self.use()

    def __exit__(self, *error: object) -> None:
        _local.device = self._outer.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> Device:
        if not 0 <= self.id < count:
            raise failure(101)  # invalid device ordinal
        _local.device = self.id
        return self

    def synchronize(self) -> None:
        record("Device.synchronize")
        _now[0] = max([_now[0], *(stream.until for stream in _streams if stream.device_id == self.id)])

    compute_capability = "90"


# -- streams and events --------------------------------------------------------------------------------------------------------


class Stream:
    """A queue of work. `until` is when the last of it is done; `graph` records what is submitted while the stream is capturing."""

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None) -> None:
        self.device_id = -1 if null else current_device()
        self.ptr, self.priority, self.is_non_blocking = 0 if null else id(self), priority or 0, non_blocking
        self.until, self.graph = 0.0, None
        _streams.append(self)

    @classmethod
    def from_external(cls, stream: Any) -> Stream:
        pointer = stream.__cuda_stream__()[1]
        return next(s for s in _streams if s.ptr == pointer)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return self.ptr

    @property
    def done(self) -> bool:
        if self.graph is not None:
            raise self.graph.broken(UNSUPPORTED)
        return self.until <= _now[0]

    def synchronize(self) -> None:
        record("Stream.synchronize")
        if self.graph is not None:
            raise self.graph.broken(UNSUPPORTED)
        _now[0] = max(_now[0], self.until)

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        if event.graph is not None and self.graph is None:
            self.graph = event.graph  # the stream joins the capture
            self.graph.forks.add(self)
        elif self.graph is not None and event.graph is not self.graph:
            raise self.graph.broken(905)  # a dependency on work outside of the capture
        elif self.graph is not None:
            self.graph.forks -= {event.stream} - {self.graph.origin}
        else:
            self.until = max(self.until, event.time)

    def begin_capture(self, mode: int | None = None) -> None:
        if not self.ptr:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self.graph is not None:
            raise failure(UNSUPPORTED)
        self.graph = Graph(self)

    def end_capture(self) -> Graph:
        graph = self.graph
        if graph is None:
            raise failure(UNSUPPORTED)
        forks = graph.forks
        for stream in (self, *_streams):
            stream.graph = None if stream.graph is graph else stream.graph
        if graph.invalid:
            raise failure(INVALIDATED)
        if forks:
            raise failure(UNJOINED)
        return graph

    def is_capturing(self) -> bool:
        return self.graph is not None

    def use(self) -> Stream:
        _stack()[-1] = self
        return self

    def __enter__(self) -> Stream:
        if self.device_id not in (-1, current_device()):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with the current device ({current_device()})"
            )
        _stack().append(self)
        _entered().append(current_device())
        return self

    def __exit__(self, *error: object) -> None:
        _stack(_entered().pop()).pop()


_streams: list[Stream] = []  # all of them: a stream that a program drops keeps its work
Stream.null = Stream(null=True)  # type: ignore[attr-defined]


def _stack(device: int | None = None) -> list[Stream]:
    """The current stream of a device and those outside of it, for this thread."""
    stacks = _local.__dict__.setdefault("stacks", {})
    return stacks.setdefault(current_device() if device is None else device, [Stream.null])  # type: ignore[attr-defined]


def _entered() -> list[int]:
    return _local.__dict__.setdefault("entered", [])


def get_current_stream(device_id: int = -1) -> Stream:
    """The stream to which this thread submits work on a device, by default the current one."""
    return _stack(None if device_id < 0 else device_id)[-1]


class Event:
    """A point in a stream's time."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        self.timed, self.time, self.recorded, self.ptr = not disable_timing, 0.0, False, id(self)
        self.graph, self.stream = None, None

    def record(self, stream: Stream | None = None) -> None:
        self.stream = get_current_stream() if stream is None else stream
        self.graph, self.recorded = self.stream.graph, True
        self.time = max(self.stream.until, _now[0])

    @property
    def done(self) -> bool:
        self._outside()
        _now[0] += SUBMITTED  # a question takes time, too: who asks again and again comes to the end
        return self.time <= _now[0]

    def synchronize(self) -> None:
        record("Event.synchronize")
        self._outside()
        _now[0] = max(_now[0], self.time)

    def _outside(self) -> None:
        if self.graph is not None:
            raise self.graph.broken(CAPTURED_EVENT)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    if not (start_event.timed and end_event.timed and start_event.recorded and end_event.recorded):
        raise failure(400)  # an invalid resource handle
    if not (start_event.done and end_event.done):
        raise failure(600)  # not ready
    return end_event.time - start_event.time


def submit(work: Callable[[], Any]) -> Any:
    """Do the work of a launch on the current stream, or record it for the graph that the stream is capturing."""
    stream = get_current_stream()
    if stream.graph is not None:
        stream.graph.works.append(work)
        return None
    took()
    return work()


def took() -> None:
    """Let the clock pass for a submission to the current stream."""
    stream = get_current_stream()
    _now[0] += SUBMITTED
    stream.until = max(stream.until, _now[0]) + WORKED


# -- graphs ------------------------------------------------------------------------------------------------------------------


class Graph:
    """What was submitted to a capturing stream, and to those that joined it, in order."""

    def __init__(self, origin: Stream) -> None:
        self.origin, self.works, self.forks, self.invalid, self.inside = origin, [], set(), False, False
        self.graph, self.graphExec = id(self), id(self) + 1

    def broken(self, status: int) -> Exception:
        """Invalidate the capture; return the error."""
        self.invalid = True
        return failure(status)

    def launch(self, stream: Stream | None = None) -> None:
        _stack().append(stream or get_current_stream())
        try:
            for work in self.works:
                submit(work)
        finally:
            _stack().pop()

    def upload(self, stream: Stream | None = None) -> None: ...

    def debug_dot_str(self, flags: int = 0) -> str:
        return f"digraph dot {{ {len(self.works)} nodes }}"


def _wait(what: str) -> None:
    """The host cannot wait for work that is only being recorded."""
    whole = what in ("Device.synchronize", "deviceSynchronize")
    for stream in _streams if whole else [get_current_stream()]:
        if stream.graph is not None and what not in ("Stream.synchronize", "Event.synchronize"):
            raise stream.graph.broken(UNSUPPORTED)
    if what not in ("Device.synchronize", "Stream.synchronize", "Event.synchronize"):
        _now[0] = max(_now[0], get_current_stream().until)


syncs.listeners.append(_wait)


def reset(gpus: int) -> None:
    """Begin anew, with so many GPUs."""
    global count
    count = gpus
    _now[0] = 0.0
    for stream in _streams:
        stream.until, stream.graph = 0.0, None
    _local.__dict__.clear()
