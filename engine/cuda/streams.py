"""Streams of work on a GPU, and events in them: CuPy's, under PyTorch's names. RuntimeError where there is no GPU."""

from __future__ import annotations

from typing import Any

from ..core import devices
from .device import index_of, runtime


class Event:
    """A point in a stream: `record` it, wait for it, and ask how long it was from one to the next."""

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
        """Put the point behind the work that was given so far, to `stream` or the current one."""
        self._made().record(None if stream is None else stream.cupy)

    def query(self) -> bool:
        """Whether the work before it is done."""
        return bool(self._made().done)

    def synchronize(self) -> None:
        """Wait until the work before it is done."""
        self._made().synchronize()

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for it."""
        (current_stream() if stream is None else stream).wait_event(self)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; both were recorded with `enable_timing=True`, else RuntimeError."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return runtime().milliseconds(self._made(), end_event._made())


class Stream:
    """A line of work on a GPU that runs beside others. Work is put into it inside `with stream(s):`."""

    def __init__(self, device: Any = None, priority: int = 0, *, _cupy: Any = None) -> None:
        self.cupy = runtime().stream(index_of(device), priority) if _cupy is None else _cupy
        self.priority = priority
        self.device = devices.device("cuda", index_of(device))

    @property
    def cuda_stream(self) -> int:
        """The address of CUDA's own stream."""
        return int(self.cupy.ptr)

    def synchronize(self) -> None:
        """Wait until its work is done."""
        self.cupy.synchronize()

    def query(self) -> bool:
        """Whether its work is done."""
        return bool(self.cupy.done)

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event behind its work; the event."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is given to it from now on waits for the event."""
        self.cupy.wait_event(event._made())

    def wait_stream(self, stream: Stream) -> None:
        """What is given to it from now on waits for the other stream's work so far."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread's work is put into."""
    return Stream(device, _cupy=runtime().current_stream())


def default_stream(device: Any = None) -> Stream:
    """The stream that work is put into unless another is chosen."""
    return Stream(device, _cupy=runtime().default_stream())


def set_stream(stream: Stream | None) -> None:
    """Put this thread's work into the stream from now on; None changes nothing."""
    if stream is not None:
        stream.cupy.use()


class StreamContext:
    """A block in which work is put into a stream; None changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.cupy.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            self.stream.cupy.__exit__(*error)


def stream(stream: Stream | None) -> StreamContext:
    """Inside, work is put into the stream; None changes nothing."""
    return StreamContext(stream)
