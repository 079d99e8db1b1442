"""What a kernel finds wrong while the host goes on: noted in pinned memory, and raised by `check` when the host next waits."""

from __future__ import annotations

import functools
import struct
from typing import Any

import cupy
import numpy

from ..batch import Batched
from . import calls, launch, waiting

_BLOCK = 256  # as in index.cu
NO_INDEX = -(1 << 63)
_noted: dict[int, numpy.ndarray] = {}  # device -> `Fault` of index.cu, which kernels write and the host reads
_known: list[Any] = []  # what a fault's number stands for: the name of an op with an index, or an error's type and text


def check() -> None:
    """Raise the error that a kernel which has finished has noted. Called after each wait."""
    for device, fault in _noted.items():
        if fault[0]:
            number, position, index, size = fault.tolist()
            fault[:] = 0
            late = "Kernels run asynchronously, so the call may be earlier than where this error is raised."
            kind, line = calls.found(number)
            what = _known[kind - 1]
            if not isinstance(what, str):
                raise what[0](f"{what[1]} (cuda:{device}{line}, at position {position}). {late}")
            raise IndexError(
                f"index {index} is out of bounds for a dimension of size {size}: {what} on cuda:{device}{line}, at position {position} of "
                f"the index. {late}"
            )


waiting.after.append(check)


@functools.cache
def _number(what: Any) -> int:
    _known.append(what)
    return len(_known)


def _address() -> int:
    """The address of the current device's `Fault`."""
    device = launch.driver.device()
    if device not in _noted:
        memory = cupy.get_default_pinned_memory_pool().malloc(32)  # also in a capture, which refuses memory to copy through
        _noted[device] = numpy.frombuffer(memory, numpy.int64, 4)
        _noted[device][:] = 0
    return _noted[device].ctypes.data


def bounds(op: str, size: int, wrap: bool = False, skip: int = NO_INDEX) -> bytes:
    """Return the bytes of a `Bounds` of index.cu: of a dimension's size, for an op with this name."""
    return struct.pack("=Qqqi?3x", _address(), size, skip, calls.numbered(_number(op)), wrap)


@functools.cache
def _kernel(name: str, J: str) -> launch.Kernel:
    return launch.Kernel(launch.source("index.cu", T="uint8_t", J=J, I="int64_t", R="struct Sum"), name)


def _launched(name: str, array: Any, *values: Any) -> None:
    if array.size:
        array = cupy.ascontiguousarray(array)
        _kernel(name, launch.TYPES[array.dtype.name])(-(-array.size // _BLOCK), _BLOCK, array.data.ptr, array.size, *values)


def look(shape: tuple, index: tuple, op: str) -> None:
    """Note an index that is out of range, for an op that has no kernel of its own; `index` has slices, None, bools and integers."""
    dim = 0
    for item in index:
        while item.__class__ is Batched:  # an index for each sample of a vmap
            item = item.inner
        kind = item.dtype.kind if hasattr(item, "dtype") else ""
        if kind in ("i", "u") and 0 not in shape:
            _launched("look", item, bounds(op, shape[dim], wrap=True))
        dim += item.ndim if kind == "b" else item is not None


def require(condition: Any, kind: type[Exception], text: str) -> None:
    """Note an error unless a condition, an array of bools, is True everywhere."""
    _launched("require", condition, _address(), calls.numbered(_number((kind, text))))
