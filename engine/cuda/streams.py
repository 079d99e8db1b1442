"""CUDA streams and events, through CuPy, under PyTorch's names. Raise RuntimeError without a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

from ..core import devices
from .device import backend, index_of


class Event:
    """A point in a stream that can be recorded, waited for and timed.

    CUDA's event is created when it is first recorded, on the GPU of the stream.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False):
        if interprocess or external:
            raise NotImplementedError("cuda.Event: an event of another process or graph (interprocess, external) cannot be made here")
        self.enable_timing, self.blocking = enable_timing, blocking
        self.device: devices.device | None = None
        self._event: Any = None

    @property
    def cuda_event(self) -> int:
        """The address of the CUDA event; 0 before it is recorded."""
        return 0 if self._event is None else int(self._event.ptr)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_event)

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the work submitted so far to `stream`, or to the current stream.

        Raises RuntimeError for a stream of another GPU than that of an earlier one.
        """
        stream = current_stream() if stream is None else stream
        if self._event is None:
            self.device = stream.device
            self._event = backend().event(stream.device.index, self.enable_timing, self.blocking)
        elif self.device != stream.device:
            raise RuntimeError(f"Event device {self.device} does not match recording stream's device {stream.device}.")
        self._event.record(stream.cupy)

    def query(self) -> bool:
        """Return whether the work before the event is complete, or the event was never recorded."""
        return self._event is None or bool(self._event.done)

    def synchronize(self) -> None:
        """Wait until the work before the event is complete."""
        if self._event is not None:
            self._event.synchronize()

    def wait(self, stream: Stream | None = None) -> None:
        """Make a stream, by default the current one, wait for the event."""
        if self._event is not None:
            (current_stream() if stream is None else stream).cupy.wait_event(self._event)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between two events.

        Raises ValueError unless both were created with `enable_timing=True` and are recorded, RuntimeError if one is not complete.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return backend().milliseconds(self._event, end_event._event)

    def ipc_handle(self) -> bytes:
        """Raise RuntimeError: events are not shared between processes."""
        raise RuntimeError("cuda.Event: an event cannot be shared with another process here")

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self._event is not None else "<torch.cuda.Event uninitialized>"


class Stream:
    """A queue of GPU work that runs concurrently with others. `with stream(s):` submits work to it.

    A lower `priority` number is a higher priority.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any):
        index = index_of(None if isinstance(device, int) and device < 0 else device)
        if not kwargs:
            self._is(backend().stream(index, priority), index)
        elif kwargs.keys() == {"stream_ptr"}:
            self._is(backend().external_stream(index, kwargs["stream_ptr"]), index)
        else:
            raise TypeError(f"cuda.Stream: unexpected arguments {', '.join(sorted(kwargs.keys() - {'stream_ptr'}))}")

    def _is(self, cupy: Any, index: int) -> Stream:
        self.cupy, self.device = cupy, devices.device("cuda", index)
        self._contexts: list[StreamContext] = []
        return self

    @property
    def cuda_stream(self) -> int:
        """The address of the CUDA stream."""
        return int(self.cupy.ptr)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    @property
    def device_index(self) -> int:
        return self.device.index or 0

    @property
    def stream_id(self) -> int:
        return self.cuda_stream

    @property
    def priority(self) -> int:
        """The stream's priority; a lower number is a higher priority."""
        return int(self.cupy.priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the least and the greatest priority: CuPy does not tell that of a GPU, so PyTorch's least range, (0, -1)."""
        return 0, -1

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
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Make later work on the stream wait for the other stream's current work."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        self._contexts.append(StreamContext(self))
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._contexts.pop().__exit__(*error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.cuda_stream, self.device) == (other.cuda_stream, other.device)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream of another library, from its address; that library keeps it alive."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any):
        super().__init__(device, stream_ptr=stream_ptr, **kwargs)


def _of(cupy: Any, index: int) -> Stream:
    return object.__new__(Stream)._is(cupy, index)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """Return the stream at an address, which the library that made it keeps alive."""
    return ExternalStream(data_ptr, device)


def current_stream(device: Any = None) -> Stream:
    """Return the stream to which this thread submits work on a GPU, by default the current one."""
    index = index_of(device)
    return _of(backend().current_stream(index), index)


def default_stream(device: Any = None) -> Stream:
    """Return the default stream of a GPU, by default of the current one."""
    index = index_of(device)
    return _of(backend().default_stream(), index)


def set_stream(stream: Stream | None) -> None:
    """Set the stream to which this thread submits work, and its GPU as the current one; None is a no-op."""
    if stream is not None:
        backend().set_stream(stream.cupy, stream.device.index)


class StreamContext:
    """A context manager that submits work to a stream, on its GPU; None is a no-op."""

    def __init__(self, stream: Stream | None):
        self.stream = stream
        self.idx = -1 if stream is None else stream.device_index
        self.src_prev_stream: Stream | None = None
        self.dst_prev_stream: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is not None:
            self.src_prev_stream = current_stream()
            self.dst_prev_stream = current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            set_stream(self.dst_prev_stream)
            set_stream(self.src_prev_stream)


def stream(stream: Stream | None) -> StreamContext:
    """Submit work to `stream` inside a `with` block; None is a no-op."""
    return StreamContext(stream)
