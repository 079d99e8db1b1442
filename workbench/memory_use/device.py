"""The machine's current memory: this process's resident set; for a GPU, CuPy's pool, the device's memory and its utilization.

Nothing here runs until a view requests it.
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
    """The resident set of this process in bytes, from /proc on Linux and from psutil elsewhere; 0 if neither is available."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        try:
            return importlib.import_module("psutil").Process().memory_info().rss
        except ImportError:
            return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def gpu() -> protocol.Gpu | None:
    """The state of the current GPU; None until a tensor has been put on a GPU."""
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
    """The GPU utilization in percent, as nvidia-smi shows it, and ""; or None and the reason why it is unknown.

    The driver's GPU indices ignore CUDA_VISIBLE_DEVICES, so the GPU is looked up by its PCI bus address.
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
