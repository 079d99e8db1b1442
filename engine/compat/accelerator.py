"""`engine.accelerator`: the GPU, asked for without naming its kind. Where there is none, it says so. `Stream` and `Event` of any device."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .. import cuda
from ..core import devices


def is_available() -> bool:
    """Whether there is a GPU that tensors can be put on."""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """`device("cuda")`; None without a GPU."""
    return devices.device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """How many GPUs can be used."""
    return cuda.device_count()


def current_device_index() -> int:
    """The number of the GPU that new tensors go to. RuntimeError without one."""
    return cuda.current_device()


current_device_idx = current_device_index


def set_device_index(device: Any) -> None:
    """Put new tensors on this GPU. RuntimeError without one."""
    cuda.set_device(device)


set_device_idx = set_device_index


@contextmanager
def device_index(device: int | None) -> Iterator[None]:
    """Inside, new tensors of a GPU go to this one; None changes nothing."""
    with cuda.device(device):
        yield


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done all that it was given. RuntimeError without one."""
    cuda.synchronize(device)


def current_stream(device: Any = None) -> cuda.Stream:
    """The stream that work is put into. RuntimeError without a GPU."""
    return cuda.current_stream(device)


def set_stream(stream: cuda.Stream) -> None:
    """Put work into this stream from now on."""
    cuda.set_stream(stream)


def empty_cache() -> None:
    """Give the pool's free memory back to the GPU. Does nothing without one."""
    cuda.empty_cache()


memory_allocated, max_memory_allocated = cuda.memory_allocated, cuda.max_memory_allocated
memory_reserved, max_memory_reserved = cuda.memory_reserved, cuda.max_memory_reserved
memory_stats, reset_peak_memory_stats = cuda.memory_stats, cuda.reset_peak_memory_stats
reset_accumulated_memory_stats, get_memory_info = cuda.reset_accumulated_memory_stats, cuda.mem_get_info


_NO_EVENTS = "cpu backend doesn't support events."


def get_device_module(device: Any = None) -> ModuleType:
    """`torch.cuda`, `torch.cpu` ... for a device or its name; without one, that of the GPU if there is one. RuntimeError for others."""
    if not (device is None or isinstance(device, (devices.device, str))):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = (current_accelerator() or devices.device("cpu")).type if device is None else devices.device(device).type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return importlib.import_module(f"engine.{kind}")


class _OfAnyDevice(type):
    """Of classes that a class of the GPU's counts as a subclass of."""

    gpu: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.gpu)


class Stream(metaclass=_OfAnyDevice):
    """A line of work of a device: `Stream("cuda")` is a `cuda.Stream`. A CPU has one, whose work is done when a call returns."""

    __module__, gpu = "torch", cuda.Stream
    device, device_type, device_index, stream_id = devices.device("cpu"), 0, -1, 0

    def __new__(cls, device: Any = None, priority: int = 0) -> Any:
        return cuda.Stream(device, priority) if _of_gpu(device) else object.__new__(cls)

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def query(self) -> bool:
        """True: its work is done."""
        return True

    def record_event(self, event: Any = None) -> Any:
        """RuntimeError: a CPU has no events."""
        raise RuntimeError(_NO_EVENTS)

    def wait_event(self, event: Any) -> None:
        """There is nothing to wait for."""

    def wait_stream(self, stream: Any) -> None:
        """RuntimeError: a CPU has no events."""
        raise RuntimeError(_NO_EVENTS)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event(metaclass=_OfAnyDevice):
    """A point in a stream of a device: `Event("cuda")` is a `cuda.Event`. On a CPU all that one could wait for is done."""

    __module__, gpu = "torch", cuda.Event
    device, event_id = devices.device("cpu"), 0

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        return cuda.Event(enable_timing, blocking, interprocess) if _of_gpu(device) else object.__new__(cls)

    def __init__(self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: Any = None) -> None:
        """RuntimeError: a CPU has no events."""
        raise RuntimeError(_NO_EVENTS)

    def query(self) -> bool:
        """True: what came before it is done."""
        return True

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """There is nothing to wait for."""

    def elapsed_time(self, other: Event) -> float:
        """No time: an event of a CPU is never recorded. ValueError without `enable_timing=True`, else RuntimeError."""
        if not (self.enable_timing and other.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise RuntimeError(_NO_EVENTS)

    def __repr__(self) -> str:
        return (
            f"torch.Event device_type={self.device.type}, device_index=-1, event_flag={int(self.enable_timing)}, event_id={self.event_id}"
        )


def _of_gpu(device: Any) -> bool:
    """Whether a stream or event is a GPU's: that of the device, or of the accelerator if there is one."""
    return cuda.is_available() if device is None else devices.device(device).type == "cuda"
