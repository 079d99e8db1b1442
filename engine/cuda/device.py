"""Which GPUs there are, which is the current one, and what they can do."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from ..core import devices
from ..core.devices import cuda_available as is_available


def runtime() -> Any:
    """What CuPy tells of a GPU and does with it. RuntimeError, saying what to install, where there is none."""
    devices.cuda()
    return importlib.import_module("engine.backends.gpu_runtime")


def device_count() -> int:
    """How many GPUs can be used."""
    return devices.cuda().device_count() if is_available() else 0


def index_of(device: Any = None) -> int:
    """The number of a GPU named as None (the current one), a number, a string or a device. ValueError for the CPU."""
    backend = devices.cuda()
    if device is None:
        return backend.current_device()
    named = devices.device(device)
    if named.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return backend.current_device() if named.index is None else named.index


def current_device() -> int:
    """The number of the GPU that new CUDA tensors go to. RuntimeError without one."""
    return index_of()


def set_device(device: Any) -> None:
    """Put new CUDA tensors on this GPU. A negative number changes nothing. RuntimeError without a GPU."""
    if not (isinstance(device, int) and device < 0):
        runtime().use(index_of(device))


class device:
    """Inside `with cuda.device(1):` new CUDA tensors go to that GPU. None or a negative number changes nothing."""

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
    """Inside, new CUDA tensors go to the GPU of a tensor; for one on the CPU nothing changes."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.is_cuda else None)


@dataclass(frozen=True)
class Properties:
    """What is known of a GPU, as `torch.cuda.get_device_properties` tells it. Sizes are in bytes."""

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
    """Name, memory, compute capability and number of multiprocessors of a GPU. RuntimeError without one."""
    return Properties(**runtime().properties(index_of(device)))


def get_device_name(device: Any = None) -> str:
    """The GPU's name, such as "NVIDIA H200"."""
    return devices.cuda().device_name(index_of(device))


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability, such as (9, 0). RuntimeError without a GPU."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """The architectures that kernels were built for before: none, CuPy builds them for the GPU that there is."""
    return []


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU can read another's memory. RuntimeError without one."""
    return runtime().can_access_peer(index_of(device), index_of(peer_device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors can be put on a GPU: no, CuPy has no such element type."""
    return False


def is_tf32_supported() -> bool:
    """Whether float32 products can be made of TF32 ones: they are always of full precision here."""
    return False


def is_initialized() -> bool:
    """Whether a GPU has been used."""
    return devices.gpu is not None


def init() -> None:
    """Load CuPy now. RuntimeError, saying what is missing, without a GPU."""
    devices.cuda()


def ipc_collect() -> None:
    """Free what other processes have given back: nothing is shared between processes on a GPU."""


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done all that was asked of it. RuntimeError without one."""
    devices.cuda().synchronize(index_of(device))
