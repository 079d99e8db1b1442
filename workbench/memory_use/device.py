"""The machine's current memory: this process's resident set; for each GPU, the pools, the device's memory and its utilization.

Nothing here runs until a view requests it.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from engine import cuda
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


def gpus() -> list[protocol.Gpu]:
    """The state of the current GPU and of the others on which the pools hold memory; empty until a tensor has been put on a GPU."""
    if devices.gpu is None:
        return []
    current = cuda.current_device()
    others = [index for index in range(cuda.device_count()) if index != current and cuda.memory_reserved(index)]
    return [_gpu(index) for index in (current, *others)]


def _gpu(index: int) -> protocol.Gpu:
    free, total = cuda.mem_get_info(index)
    used, held, peak = cuda.memory_allocated(index), cuda.memory_reserved(index), cuda.max_memory_allocated(index)
    return protocol.Gpu(cuda.get_device_name(index), index, used, held, peak, total - free, total, *_utilisation(index))


def _utilisation(index: int) -> tuple[int | None, str]:
    """The GPU utilization in percent, as nvidia-smi shows it, and ""; or None and the reason why it is unknown."""
    try:
        return cuda.utilization(index), ""
    except ModuleNotFoundError:
        return None, NO_UTILISATION
    except importlib.import_module("pynvml").NVMLError as error:
        return None, f"The driver does not tell how busy the GPU is: {error}."
