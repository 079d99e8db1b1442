"""GPU management through CuPy: the current device, device properties, streams and events, marks for profilers."""

from __future__ import annotations

import uuid
from typing import Any

import cupy

from . import namespace

# PyTorch's name of a property -> CUDA's; some are absent in some versions of CUDA
PROPERTIES = {
    "major": "major",
    "minor": "minor",
    "total_memory": "totalGlobalMem",
    "multi_processor_count": "multiProcessorCount",
    "warp_size": "warpSize",
    "max_threads_per_block": "maxThreadsPerBlock",
    "max_threads_per_multi_processor": "maxThreadsPerMultiProcessor",
    "regs_per_multiprocessor": "regsPerMultiprocessor",
    "shared_memory_per_block": "sharedMemPerBlock",
    "shared_memory_per_block_optin": "sharedMemPerBlockOptin",
    "shared_memory_per_multiprocessor": "sharedMemPerMultiprocessor",
    "L2_cache_size": "l2CacheSize",
    "clock_rate": "clockRate",
    "memory_clock_rate": "memoryClockRate",
    "memory_bus_width": "memoryBusWidth",
    "is_integrated": "integrated",
    "is_multi_gpu_board": "isMultiGpuBoard",
    "pci_bus_id": "pciBusID",
    "pci_device_id": "pciDeviceID",
    "pci_domain_id": "pciDomainID",
}


# -- devices -----------------------------------------------------------------------------------------------------------------


def use(index: int) -> None:
    """Make a GPU the current one of this thread, on which it creates arrays. Raises RuntimeError if there is no such GPU."""
    namespace.device(index).use()


def properties(index: int) -> dict[str, Any]:
    """Return a GPU's properties under PyTorch's names; sizes are in bytes."""
    told = cupy.cuda.runtime.getDeviceProperties(index)
    name = told["name"]
    found: dict[str, Any] = {"name": name.decode() if isinstance(name, bytes) else str(name)}
    found |= {ours: int(told[theirs]) for ours, theirs in PROPERTIES.items() if theirs in told}
    return found | ({"uuid": uuid.UUID(bytes=bytes(told["uuid"]))} if "uuid" in told else {})


def can_access_peer(index: int, other: int) -> bool:
    """Return whether one GPU can access the memory of another."""
    return bool(cupy.cuda.runtime.deviceCanAccessPeer(index, other))


def version() -> str:
    """Return the version of the CUDA runtime, such as "12.8"."""
    number = int(cupy.cuda.runtime.runtimeGetVersion())
    return f"{number // 1000}.{number % 1000 // 10}"


def memory_info(index: int) -> tuple[int, int]:
    """Return the free and total memory of a GPU in bytes."""
    with cupy.cuda.Device(index):
        free, total = cupy.cuda.runtime.memGetInfo()
    return int(free), int(total)


# -- streams and events --------------------------------------------------------------------------------------------------------


def event(index: int, timed: bool, blocking: bool, interprocess: bool = False) -> Any:
    """Create an event of a GPU."""
    with cupy.cuda.Device(index):
        return cupy.cuda.Event(block=blocking, disable_timing=not timed, interprocess=interprocess)


def milliseconds(begin: Any, end: Any) -> float:
    """Return the GPU time in milliseconds between two events."""
    return float(cupy.cuda.get_elapsed_time(begin, end))


def stream(index: int, priority: int) -> Any:
    """Create a stream that does not wait for the default stream."""
    with cupy.cuda.Device(index):
        return cupy.cuda.Stream(non_blocking=True, priority=priority)


class _External:
    """A stream of another library, in the protocol that CuPy accepts."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def external_stream(index: int, pointer: int) -> Any:
    """Return CuPy's stream for the address of a CUDA stream, which its owner keeps alive."""
    with cupy.cuda.Device(index):
        return cupy.cuda.Stream.from_external(_External(pointer))


def current_stream(index: int) -> Any:
    """Return this thread's current stream on a GPU."""
    return cupy.cuda.get_current_stream(index)


def default_stream() -> Any:
    """Return the default stream."""
    return cupy.cuda.Stream.null


def set_stream(stream: Any, index: int) -> None:
    """Make a stream the current one of its GPU, and the GPU the current one of this thread."""
    cupy.cuda.Device(index).use()
    stream.use()


# -- marks for NVIDIA's profilers ----------------------------------------------------------------------------------------------


def nvtx() -> Any:
    """Return CuPy's module of ranges and marks."""
    return cupy.cuda.nvtx


def profiler() -> Any:
    """Return CuPy's module that starts and stops NVIDIA's profilers."""
    return cupy.cuda.profiler


def nccl_version() -> int:
    """Return the version of NCCL as one number, such as 22703. Raises RuntimeError if CuPy has no NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        raise RuntimeError(f"NCCL cannot be used: {error}") from error
    return int(nccl.get_version())


def plan_cache(index: int | None = None) -> Any:
    """Return CuPy's cache of plans for Fourier transforms on a GPU, by default the current one."""
    with cupy.cuda.Device(index):
        return cupy.fft.config.get_plan_cache()
