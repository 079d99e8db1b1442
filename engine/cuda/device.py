"""Query GPUs and select the current one."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from ..core import devices
from ..core.devices import cuda_available as is_available


def runtime() -> Any:
    """Return the module of CuPy runtime functions. Raises RuntimeError, saying what to install, if there is no GPU."""
    devices.cuda()
    return importlib.import_module("engine.backends.gpu.runtime")


def device_count() -> int:
    """Return the number of usable GPUs."""
    return devices.cuda().device_count() if is_available() else 0


def index_of(device: Any = None) -> int:
    """Return the index of a GPU given as None (the current one), an integer, a string or a device. Raises ValueError for the CPU."""
    backend = devices.cuda()
    if device is None:
        return backend.current_device()
    named = devices.device(device)
    if named.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return backend.current_device() if named.index is None else named.index


def current_device() -> int:
    """Return the index of the GPU for new CUDA tensors. Raises RuntimeError without a GPU."""
    return index_of()


def set_device(device: Any) -> None:
    """Set the GPU for new CUDA tensors; a negative index is a no-op. Raises RuntimeError without a GPU."""
    if not (isinstance(device, int) and device < 0):
        runtime().use(index_of(device))


class device:
    """Set the GPU for new CUDA tensors inside a `with` block; None or a negative index is a no-op."""

    def __init__(self, device: Any) -> None:
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

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.is_cuda else None)


@dataclass(frozen=True)
class Properties:
    """Properties of a GPU, as returned by `get_device_properties`. Sizes are in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    L2_cache_size: int
    is_integrated: int
    is_multi_gpu_board: int


def get_device_properties(device: Any = None) -> Properties:
    """Return a GPU's name, memory, compute capability and number of multiprocessors. Raises RuntimeError without a GPU."""
    return Properties(**runtime().properties(index_of(device)))


def get_device_name(device: Any = None) -> str:
    """Return a GPU's name, such as "NVIDIA H200"."""
    return devices.cuda().device_name(index_of(device))


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return a GPU's compute capability, such as (9, 0). Raises RuntimeError without a GPU."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """Return the architectures with prebuilt kernels: none, since CuPy compiles for the GPU at hand."""
    return []


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return whether one GPU can read another's memory. Raises RuntimeError without a GPU."""
    return runtime().can_access_peer(index_of(device), index_of(peer_device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current GPU computes in bfloat16; with `including_emulation`, whether there is a GPU."""
    return devices.cuda_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Return whether the current GPU can compute float32 products in TF32."""
    return devices.cuda_available() and get_device_capability()[0] >= 8


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
