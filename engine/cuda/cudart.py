"""The few functions of the CUDA runtime that programs call as `torch.cuda.cudart().cudaProfilerStart()`."""

from __future__ import annotations

from .device import backend
from .memory import mem_get_info
from .profiler import start, stop


class CudaError(RuntimeError):
    """Raised by `check_error` for a CUDA error code."""


def check_error(res: int) -> None:
    """Raise CudaError unless a result is 0, success."""
    if res:
        raise CudaError(f"CUDA error ({int(res)})")


class Cudart:
    """The CUDA runtime. Each function returns 0, success; errors are raised."""

    def cudaProfilerStart(self) -> int:
        """See `torch.cuda.profiler.start`."""
        start()
        return 0

    def cudaProfilerStop(self) -> int:
        """See `torch.cuda.profiler.stop`."""
        stop()
        return 0

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        """Return the free and total memory of a GPU in bytes."""
        return mem_get_info(device)


def cudart() -> Cudart:
    """Return the CUDA runtime. Raises RuntimeError without a GPU."""
    backend()
    return Cudart()
