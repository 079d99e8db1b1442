"""`engine.accelerator`: the GPU by a device-independent name, and `Stream` and `Event` for any device."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .. import cuda
from ..base import dtypes
from ..core import devices
from ..cuda.device import backend


def is_available() -> bool:
    """Return whether a GPU is available."""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> devices.device | None:
    """Return `device("cuda")`, or None without a GPU."""
    return devices.device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """Return the number of usable GPUs."""
    return cuda.device_count()


def current_device_index() -> int:
    """Return the index of the GPU for new tensors. Raises RuntimeError without a GPU."""
    return cuda.current_device()


current_device_idx = current_device_index


def set_device_index(device: Any, /) -> None:
    """Set the GPU for new tensors. Raises RuntimeError without a GPU."""
    cuda.set_device(device)


set_device_idx = set_device_index


@contextmanager
def device_index(device: int | None, /) -> Iterator[None]:
    """Set the GPU for new tensors inside a `with` block; None is a no-op."""
    with cuda.device(device):
        yield


def synchronize(device: Any = None, /) -> None:
    """Wait until all work launched on the GPU is complete. Raises RuntimeError without a GPU."""
    cuda.synchronize(device)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """Return the dtypes that a GPU computes with, as `{"supported_dtypes": {...}}`. Raises RuntimeError without a GPU."""
    cuda.get_device_properties(device)
    return {"supported_dtypes": set(dtypes.ALL)}


def current_stream(device: Any = None, /) -> cuda.Stream:
    """Return the current stream. Raises RuntimeError without a GPU."""
    return cuda.current_stream(device)


def set_stream(stream: cuda.Stream) -> None:
    """Set the current stream."""
    cuda.set_stream(stream)


def empty_cache() -> None:
    """Return the pool's free memory to the GPU. A no-op without a GPU."""
    cuda.empty_cache()


def empty_host_cache() -> None:
    """Return the pinned memory that is free to the host. A no-op without a GPU."""
    if cuda.is_available():
        backend("memory").free_pinned_blocks()


memory_allocated, max_memory_allocated = cuda.memory_allocated, cuda.max_memory_allocated
memory_reserved, max_memory_reserved = cuda.memory_reserved, cuda.max_memory_reserved
memory_stats, reset_peak_memory_stats = cuda.memory_stats, cuda.reset_peak_memory_stats
reset_accumulated_memory_stats, get_memory_info = cuda.reset_accumulated_memory_stats, cuda.mem_get_info


_NO_EVENTS = "cpu backend doesn't support events."


def get_device_module(device: Any = None) -> ModuleType:
    """Return `torch.cuda`, `torch.cpu` etc. for a device, by default the GPU's if there is one. Raises RuntimeError for others."""
    if not (device is None or isinstance(device, (devices.device, str))):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = (current_accelerator() or devices.device("cpu")).type if device is None else devices.device(device).type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return importlib.import_module(f"engine.{kind}")


class _OfAnyDevice(type):
    """Metaclass that also accepts instances of the GPU class in `isinstance`."""

    gpu: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.gpu)


class Stream(metaclass=_OfAnyDevice):
    """A stream of a device: `Stream("cuda")` is a `cuda.Stream`. The CPU's one stream is synchronous."""

    __module__, gpu = "torch", cuda.Stream
    device, device_type, device_index, stream_id = devices.device("cpu"), 0, -1, 0

    def __new__(cls, device: Any = None, priority: int = 0) -> Any:
        return cuda.Stream(device, priority) if _of_gpu(device) else object.__new__(cls)

    def synchronize(self) -> None:
        """Do nothing: all work is complete."""

    def query(self) -> bool:
        """Return True: all work is complete."""
        return True

    def record_event(self, event: Any = None) -> Any:
        """Raise RuntimeError: the CPU does not support events."""
        raise RuntimeError(_NO_EVENTS)

    def wait_event(self, event: Any) -> None:
        """Do nothing: all work is complete."""

    def wait_stream(self, stream: Any) -> None:
        """Raise RuntimeError: the CPU does not support events."""
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
    """An event of a device: `Event("cuda")` is a `cuda.Event`. On the CPU, all earlier work is complete."""

    __module__, gpu = "torch", cuda.Event
    device, event_id = devices.device("cpu"), 0

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        return cuda.Event(enable_timing, blocking, interprocess) if _of_gpu(device) else object.__new__(cls)

    def __init__(self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: Any = None) -> None:
        """Raise RuntimeError: the CPU does not support events."""
        raise RuntimeError(_NO_EVENTS)

    def query(self) -> bool:
        """Return True: all earlier work is complete."""
        return True

    def synchronize(self) -> None:
        """Do nothing: all earlier work is complete."""

    def wait(self, stream: Any = None) -> None:
        """Do nothing: all earlier work is complete."""

    def elapsed_time(self, other: Event) -> float:
        """Raise RuntimeError, since CPU events cannot be recorded, or ValueError without `enable_timing=True`."""
        if not (self.enable_timing and other.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise RuntimeError(_NO_EVENTS)

    def __repr__(self) -> str:
        return (
            f"torch.Event device_type={self.device.type}, device_index=-1, event_flag={int(self.enable_timing)}, event_id={self.event_id}"
        )


def _of_gpu(device: Any) -> bool:
    """Return whether a stream or event belongs to a GPU: that of the device, or of the accelerator if any."""
    return cuda.is_available() if device is None else devices.device(device).type == "cuda"
