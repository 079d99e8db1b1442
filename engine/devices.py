"""Devices: which library computes, found from the arrays themselves."""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy

from .backends import cpu
from .errors import Refused

gpu: Any = None  # the CUDA backend, once a tensor has been put on a GPU; None: every array is NumPy's


class device:
    """Where a tensor's memory is: `device("cpu")`, `device("cuda")`, `device("cuda:1")`, `device("cuda", 1)`."""

    __slots__ = ("type", "index")

    def __init__(self, type: Any = "cpu", index: int | None = None):
        if isinstance(type, device):
            self.type, self.index = type.type, type.index
            return
        if isinstance(type, int):
            type, index = "cuda", type
        found = re.fullmatch(r"(cpu|cuda)(?::(\d+))?", type)
        if found is None:
            raise RuntimeError(f"Expected one of cpu, cuda device type at start of device string: {type}")
        if found[2] is not None and index is not None:
            raise RuntimeError(f"device({type!r}, {index}): the index is given twice")
        self.type: str = found[1]
        self.index: int | None = int(found[2]) if found[2] is not None else index

    def __repr__(self) -> str:
        return f"device(type={self.type!r}{f', index={self.index}' if self.index is not None else ''})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


CPU = device("cpu")


def cuda() -> Any:
    """The CUDA backend, loaded at the first use. RuntimeError, saying what to install, when there is no CuPy or no GPU."""
    global gpu
    if gpu is None:
        try:
            backend = importlib.import_module("engine.backends.cuda")
        except ImportError as error:
            raise RuntimeError(
                f"No CUDA device can be used: CuPy is not installed ({error}). "
                "Install gradient-workbench[cuda12] or gradient-workbench[cuda13]."
            ) from error
        backend.require_device()
        gpu = backend
    return gpu


def cuda_available() -> bool:
    """Whether tensors can be put on a GPU here."""
    try:
        return cuda().device_count() > 0
    except RuntimeError:
        return False


def namespace(array: Any) -> Any:
    """The array namespace (`xp`) of an array: the CPU's for NumPy arrays and numbers, else the GPU's."""
    if gpu is None or isinstance(array, (numpy.ndarray, numpy.generic)) or not hasattr(array, "dtype"):
        return cpu
    return gpu


def of(array: Any) -> device:
    """The device that an array is on."""
    return CPU if isinstance(array, (numpy.ndarray, numpy.generic)) else device("cuda", array.device.id)


def common(arrays: list, name: str) -> Any:
    """The namespace that an op on these arrays runs in. A 0-d CPU array may join arrays on a GPU, as in PyTorch; nothing else mixes."""
    if gpu is None:
        return cpu
    placed = [a for a in arrays if hasattr(a, "dtype") and not isinstance(a, numpy.generic)]
    devices = {of(a) for a in placed}
    if len(devices) < 2:
        return cpu if not devices or CPU in devices else gpu
    main = {of(a) for a in placed if a.ndim or not isinstance(a, numpy.ndarray)}
    if len(main) > 1:
        raise Refused(
            f"Expected all tensors to be on the same device, but found at least two devices, {' and '.join(sorted(map(str, main)))}!"
        )
    for i, a in enumerate(arrays):
        if isinstance(a, numpy.ndarray) and a.ndim == 0:
            arrays[i] = a.item() if a.dtype.kind in "bif" else gpu.asarray(a)
    return gpu


def move(array: Any, to: device) -> Any:
    """The array on another device: itself when it is there already, else a copy."""
    here = of(array)
    if here.type == to.type and (to.index is None or to.index == here.index):
        return array
    if to.type == "cpu":
        return cuda().to_host(array)
    return cuda().to_device(array, to.index)
