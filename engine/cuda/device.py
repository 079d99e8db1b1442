"""Query GPUs and select the current one."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

from ..core import devices
from ..core.devices import cuda_available as is_available


def backend(name: str = "runtime") -> Any:
    """Return a module of `engine.backends.gpu`. Raises RuntimeError, saying what to install, if there is no GPU."""
    devices.cuda()
    return importlib.import_module(f"engine.backends.gpu.{name}")


def device_count() -> int:
    """Return the number of usable GPUs."""
    return devices.cuda().device_count() if is_available() else 0


def index_of(device: Any = None) -> int:
    """Return the index of a GPU given as None (the current one), an integer, a string or a device. Raises ValueError for the CPU."""
    gpu = devices.cuda()
    if device is None:
        return gpu.current_device()
    named = devices.device(device)
    if named.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return gpu.current_device() if named.index is None else named.index


def current_device() -> int:
    """Return the index of the GPU for new CUDA tensors. Raises RuntimeError without a GPU."""
    return index_of()


def set_device(device: Any) -> None:
    """Set the GPU for new CUDA tensors; a negative index is a no-op. Raises RuntimeError without a GPU."""
    if not (isinstance(device, int) and device < 0):
        backend().use(index_of(device))


class device:
    """Set the GPU for new CUDA tensors inside a `with` block; None or a negative index is a no-op."""

    def __init__(self, device: Any):
        self.idx = -1 if device is None else device if isinstance(device, int) and device < 0 else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(self, *error: object) -> None:
        set_device(self.prev_idx)


class device_of(device):
    """Set the GPU for new CUDA tensors to that of a tensor; a no-op for a CPU tensor."""

    def __init__(self, obj: Any):
        super().__init__(obj.device if obj.is_cuda else None)


class _CudaDeviceProperties(SimpleNamespace):
    """Properties of a GPU: `name`, `major`, `minor`, `total_memory` and others of which CUDA tells. Sizes are in bytes."""

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if name in _SHOWN}
        told |= {"name": repr(self.name)} | {name: f"{told[name] >> 20}MB" for name in ("total_memory", "L2_cache_size")}
        return f"_CudaDeviceProperties({', '.join(f'{name}={told[name]}' for name in _SHOWN if name in told)})"


_SHOWN = ("name", "major", "minor", "total_memory", "multi_processor_count", "uuid", "pci_bus_id", "pci_device_id", "pci_domain_id")
_SHOWN += ("L2_cache_size",)


def get_device_properties(device: Any = None) -> Any:
    """Return a GPU's name, memory, compute capability, multiprocessors and so on. Raises RuntimeError without a GPU."""
    return _CudaDeviceProperties(**backend().properties(index_of(device)))


def get_device_name(device: Any = None) -> str:
    """Return a GPU's name, such as "NVIDIA H200"."""
    return devices.cuda().device_name(index_of(device))


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return a GPU's compute capability, such as (9, 0). Raises RuntimeError without a GPU."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """Return the architectures for which kernels are compiled: those of the GPUs that are there, as "sm_90"."""
    found = [get_device_capability(index) for index in range(device_count())]
    return [f"sm_{major}{minor}" for major, minor in dict.fromkeys(found)]


def get_gencode_flags() -> str:
    """Return NVCC's flags for the architectures of `get_arch_list`."""
    return " ".join(f"-gencode compute=compute_{arch[3:]},code={arch}" for arch in get_arch_list())


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return whether one GPU can read another's memory. Raises RuntimeError without a GPU."""
    return backend().can_access_peer(index_of(device), index_of(peer_device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current GPU computes in bfloat16; with `including_emulation`, whether there is a GPU."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Return whether the current GPU has TF32 instructions."""
    return is_available() and get_device_capability()[0] >= 8


def is_initialized() -> bool:
    """Return whether a GPU has been used."""
    return devices.gpu is not None


def init() -> None:
    """Load CuPy. Raises RuntimeError, saying what is missing, without a GPU."""
    devices.cuda()


def ipc_collect() -> None:
    """Do nothing: GPU memory is never shared between processes."""


def synchronize(device: Any = None) -> None:
    """Wait until all work launched on the GPU is complete. Raises RuntimeError without a GPU."""
    devices.cuda().synchronize(index_of(device))


_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Set what happens where the host waits for a GPU: nothing ("default", 0), a warning ("warn", 1) or a RuntimeError ("error", 2).

    As in PyTorch, calls that only wait, `synchronize` of a GPU or an event, are let pass. A copy to the GPU does not wait here: it goes
    through pinned memory. Raises RuntimeError for another mode, and without a GPU.
    """
    waiting = backend("waiting")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in range(len(_MODES)):
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    waiting.set_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """Return the mode of `set_sync_debug_mode` as a number: 0, 1 or 2. Raises RuntimeError without a GPU."""
    return backend("waiting").mode()
