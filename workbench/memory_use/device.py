"""The machine's memory at this moment: what this process has taken; on a GPU CuPy's pool, the whole device and how busy it is.

Nothing here runs unless a view asks.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from engine.core import devices

from .. import protocol

NO_UTILISATION = "How busy the GPU is can be read when nvidia-ml-py is installed: pip install nvidia-ml-py."


def resident() -> int:
    """Bytes of main memory that this process occupies; 0 where the system does not tell. On Linux from /proc, else from psutil."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        try:
            return importlib.import_module("psutil").Process().memory_info().rss
        except ImportError:
            return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def gpu() -> protocol.Gpu | None:
    """The current GPU; None while no tensor has been put on one."""
    if devices.gpu is None:
        return None
    cupy = devices.gpu.cupy
    runtime, pool = cupy.cuda.runtime, cupy.get_default_memory_pool()
    index = int(runtime.getDevice())  # of this thread
    free, total = runtime.memGetInfo()
    name = runtime.getDeviceProperties(index)["name"]
    busy, missing = _utilisation(runtime, index)
    return protocol.Gpu(
        name.decode() if isinstance(name, bytes) else str(name), index, pool.used_bytes(), pool.total_bytes(), total - free, total, busy,
        missing,
    )  # fmt: skip


def _utilisation(runtime: Any, index: int) -> tuple[int | None, str]:
    """Percent of the last period in which the GPU ran a kernel, as nvidia-smi shows it; or None, and why it is not known.

    The driver counts GPUs on its own and does not know CUDA_VISIBLE_DEVICES, so the GPU is found by its address on the bus.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None, NO_UTILISATION
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(runtime.deviceGetPCIBusId(index).encode())
        return int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu), ""
    except nvml.NVMLError as error:
        return None, f"The driver does not tell how busy the GPU is: {error}."
