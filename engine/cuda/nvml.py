"""What NVIDIA's management library tells of a GPU: its load, temperature, power and processes. Needs the package nvidia-ml-py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .device import get_device_properties


def _of(device: Any, ask: Callable[[Any, Any], Any]) -> Any:
    """Return what the library tells of a GPU. Raises ModuleNotFoundError without it, RuntimeError without a GPU."""
    uuid = get_device_properties(device).uuid
    try:
        import pynvml  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.") from error
    pynvml.nvmlInit()
    return ask(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"))


def utilization(device: Any = None) -> int:
    """Return the percentage of the last sample period in which the GPU ran a kernel."""
    return _of(device, lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu)


def memory_usage(device: Any = None) -> int:
    """Return the percentage of the last sample period in which the GPU's memory was read or written."""
    return _of(device, lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory)


def temperature(device: Any = None) -> int:
    """Return the GPU's temperature in degrees Celsius."""
    return _of(device, lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU))


def power_draw(device: Any = None) -> int:
    """Return the power that the GPU draws, in milliwatts."""
    return _of(device, lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu))


def clock_rate(device: Any = None) -> int:
    """Return the rate of the multiprocessors' clock in MHz."""
    return _of(device, lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))


def list_gpu_processes(device: Any = None) -> str:
    """Return a list of the processes that use the GPU, and their memory."""
    found = _of(device, lambda nvml, gpu: nvml.nvmlDeviceGetComputeRunningProcesses(gpu))
    lines = [f"process {one.pid:>10d} uses {(one.usedGpuMemory or 0) / 2**20:>12.3f} MB GPU memory" for one in found]
    return "\n".join([f"GPU:{get_device_properties(device).uuid}", *(lines or ["no processes are running"])])
