"""CUDA streams and events, through CuPy, under PyTorch's names. Raise RuntimeError without a GPU."""

from __future__ import annotations

from typing import Any

from ..core import devices
from .device import index_of, runtime


class Event:
    """A point in a stream that can be recorded, waited for and timed."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False) -> None:
        if interprocess or external:
            raise NotImplementedError("cuda.Event: an event of another process (interprocess, external) cannot be made here")
        self.enable_timing, self.blocking = enable_timing, blocking
        self._event: Any = None
        if devices.cuda_available():
            self._event = runtime().event(blocking, not enable_timing)

    def _made(self) -> Any:
        if self._event is None:
            self._event = runtime().event(self.blocking, not self.enable_timing)
        return self._event

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the work submitted so far to `stream`, or to the current stream."""
        self._made().record(None if stream is None else stream.cupy)

    def query(self) -> bool:
        """Return whether the work before the event is complete."""
        return bool(self._made().done)

    def synchronize(self) -> None:
        """Wait until the work before the event is complete."""
        self._made().synchronize()

    def wait(self, stream: Stream | None = None) -> None:
        """Make a stream, by default the current one, wait for the event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between two events. Raises RuntimeError unless both have `enable_timing=True`."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return runtime().milliseconds(self._made(), end_event._made())


class Stream:
    """A queue of GPU work that runs concurrently with others. `with stream(s):` submits work to it."""

    def __init__(self, device: Any = None, priority: int = 0, *, _cupy: Any = None) -> None:
        self.cupy = runtime().stream(index_of(device), priority) if _cupy is None else _cupy
        self.priority = priority
        self.device = devices.device("cuda", index_of(device))

    @property
    def cuda_stream(self) -> int:
        """The address of the CUDA stream."""
        return int(self.cupy.ptr)

    def synchronize(self) -> None:
        """Wait until the stream's work is complete."""
        self.cupy.synchronize()

    def query(self) -> bool:
        """Return whether the stream's work is complete."""
        return bool(self.cupy.done)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after the stream's work, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Make later work on the stream wait for an event."""
        self.cupy.wait_event(event._made())

    def wait_stream(self, stream: Stream) -> None:
        """Make later work on the stream wait for the other stream's current work."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def current_stream(device: Any = None) -> Stream:
    """Return the stream to which this thread submits work."""
    return Stream(device, _cupy=runtime().current_stream())


def default_stream(device: Any = None) -> Stream:
    """Return the default stream."""
    return Stream(device, _cupy=runtime().default_stream())


def set_stream(stream: Stream | None) -> None:
    """Set the stream to which this thread submits work; None is a no-op."""
    if stream is not None:
        stream.cupy.use()


class StreamContext:
    """A context manager that submits work to a stream; None is a no-op."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.cupy.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            self.stream.cupy.__exit__(*error)


def stream(stream: Stream | None) -> StreamContext:
    """Submit work to `stream` inside a `with` block; None is a no-op."""
    return StreamContext(stream)
