"""Tensors from existing data: numbers, nested lists, NumPy arrays, buffers, files, and arrays of other libraries."""

from __future__ import annotations

import ctypes
import mmap
import warnings
from pathlib import Path
from typing import Any

import numpy

from ..base import dtypes
from . import devices, versions
from .create import as_wanted, factory, made, number
from .from_lists import to_array
from .tensor import Tensor, define

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_file", "from_numpy", "frombuffer", "scalar_tensor", "tensor"]


@factory
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor with a copy of the data: a number, nested lists of equal length, or a NumPy array.

    Python floats become the default dtype, ints int64, bools bool. Raises ValueError for lists of unequal length.
    """
    return made(to_array(data, None if dtype is None else as_wanted(dtype), device), device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the data as a tensor, without a copy if it is a tensor, or an array of the host or a GPU, of that dtype and device already."""
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(dtype=dtype, device=device)
    if isinstance(data, numpy.ndarray) and data.dtype in dtypes.FROM_NUMPY and data.dtype.isnative:
        return as_tensor(from_numpy(data), dtype, device)
    if hasattr(data, "__cuda_array_interface__"):
        return as_tensor(Tensor._wrap(devices.cuda().asarray(data)), dtype, device)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None) -> Tensor:
    """Return the object as a tensor. With `copy` None it shares memory if possible, True always copies, False raises ValueError if it must.

    With `requires_grad` None a tensor keeps its own; with False it is detached. A buffer, such as bytes, is read as elements of `dtype`.
    """
    if isinstance(obj, (bytes, bytearray, memoryview, mmap.mmap)):
        obj = frombuffer(obj, dtype=dtypes.default if dtype is None else dtype)
    if hasattr(obj, "untyped"):  # a storage
        obj = Tensor._wrap(obj.array)
    found = as_tensor(obj, dtype, device)
    shares = found is obj or isinstance(obj, numpy.ndarray) and not found.is_cuda and numpy.may_share_memory(found.array, obj)
    if copy is False and not shares:
        raise ValueError("can't alias arbitrary sequence or a tensor of another dtype or device into a tensor")
    if copy and shares:
        found = found.detach().clone()
    if requires_grad is False and found.requires_grad:
        return found.detach()
    return found.requires_grad_() if requires_grad else found


def from_numpy(ndarray: numpy.ndarray) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array.

    Raises TypeError for an unsupported dtype, and ValueError for another byte order or for negative or unaligned strides.
    """
    if not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    known = dtypes.FROM_NUMPY.get(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError(
            f"given numpy array has byte order different from the native byte order: {ndarray.dtype}. "
            "Conversion between byte orders is currently not supported."
        )
    if known is None:
        raise TypeError(
            f"can't convert np.ndarray of type {ndarray.dtype}. The only supported types are: {', '.join(d.name for d in dtypes.ALL)}."
        )
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not supported. Copy it first."
        )
    if any(step % ndarray.itemsize for step in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
        )
    plain = ndarray.view(numpy.ndarray)
    return Tensor._wrap(_apart(plain if plain.dtype is known.numpy else plain.view(known.numpy)))


class _Memory:
    """The memory from the first to the last element of a NumPy array: an array made of it has this object as base, not the larger array."""

    def __init__(self, array: numpy.ndarray, n: int):
        self.array = array  # keeps the memory
        self.__array_interface__ = {**array.__array_interface__, "shape": (n,), "strides": None}


def _apart(array: numpy.ndarray) -> numpy.ndarray:
    """The same array; if it is a part of a larger one, over a storage of that part only, so that a checkpoint writes no more than that."""
    n = sum((length - 1) * step for length, step in zip(array.shape, array.strides, strict=True)) // array.itemsize + 1
    if not array.size or array.dtype.kind == "V" or versions.storage(array).size == n:
        return array
    return numpy.ndarray(array.shape, array.dtype, numpy.asarray(_Memory(array, n)), 0, array.strides)


class _Capsule:
    """A DLPack capsule of CPU memory, with the methods that NumPy expects."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _writable(array: numpy.ndarray) -> numpy.ndarray:
    """The array as a writable one: a capsule does not say whether its memory is writable, and NumPy assumes that it is not."""
    if array.flags.writeable or not array.size:
        return array
    extent = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
    memory = (ctypes.c_char * extent).from_address(array.ctypes.data)
    memory.owner = array  # type: ignore[attr-defined]  # keeps the memory alive
    return numpy.ndarray(array.shape, array.dtype, memory, 0, array.strides)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares the memory of an object with `__dlpack__`, or of a capsule of CPU memory, which can be used once.

    `copy=True` copies; `device` moves. Raises ValueError if `copy=False` and a copy is needed.
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        if type(ext_tensor).__name__ != "PyCapsule":
            told = type(ext_tensor).__name__
            raise RuntimeError(f"from_dlpack received an invalid capsule: expected an object with __dlpack__ or a capsule, got {told}")
        if device is not None or copy is not None:
            raise AssertionError("device and copy kwargs not supported when ext_tensor is already a DLPack capsule.")
        return from_numpy(_writable(numpy.from_dlpack(_Capsule(ext_tensor))))
    on_gpu = ext_tensor.__dlpack_device__()[0] == 2
    found = Tensor._wrap(devices.cuda().from_dlpack(ext_tensor)) if on_gpu else from_numpy(numpy.from_dlpack(ext_tensor))
    moved = found if device is None else found.to(device)
    if copy is False and moved is not found:
        raise ValueError("from_dlpack: moving to another device makes a copy, which copy=False forbids")
    return moved.clone() if copy and moved is found else moved


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a 1-d tensor that shares the memory of a buffer object: `count` elements (-1: all) from byte `offset` on.

    A read-only buffer is copied, with a warning. Raises ValueError if the buffer is empty or too short.
    """
    try:
        seen = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length = seen.nbytes
    d = dtypes.as_dtype(dtype)
    size = d.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1")
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
        )
    if count > 0 and count * size > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than actual buffer length "
            f"({length} bytes)"
        )
    array = numpy.frombuffer(buffer, d.numpy, count, offset)
    if seen.readonly:
        warnings.warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors; the tensor here is a copy of it.",
            UserWarning,
            stacklevel=2,
        )
        array = array.copy()
    found = Tensor._wrap(array)
    return found.requires_grad_() if requires_grad else found


@factory
def from_file(
    filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the first `size` elements of a file of raw values, mapped into memory; with `shared`, writes to the tensor reach the file.

    A shared file that is missing or too short grows to the size. Without `shared` it raises RuntimeError.
    """
    path, d = Path(filename), as_wanted(dtype)
    needed = (size or 0) * d.itemsize
    if not size:
        return made(numpy.empty(0, d), device, requires_grad)
    if shared:
        with path.open("ab") as file:
            if file.tell() < needed:
                file.truncate(needed)
    elif not path.is_file():
        raise RuntimeError(f"unable to open file <{filename}> in read-only mode: there is no such file")
    if path.stat().st_size < needed:
        raise RuntimeError(f"file <{filename}> has {path.stat().st_size} bytes, and {needed} are needed for {size} elements of {d.name}")
    with path.open("r+b" if shared else "rb") as file:
        mapped = mmap.mmap(file.fileno(), needed, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    return made(numpy.frombuffer(mapped, d), device, requires_grad)


@factory
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a 0-d tensor that holds a number, by default of the default float dtype."""
    d, s = as_wanted(dtype), number(s, "scalar_tensor", "s", 1)
    return made(numpy.array(dtypes.fitting(s, dtypes.FROM_NUMPY[d]), dtype=d), device, requires_grad)


def _new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
    """Return a tensor with a copy of the data, by default with this tensor's dtype and device."""
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, **kwargs)


def _new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Return a tensor with this one's dtype and device, of a size, of data, or empty: PyTorch's oldest form of `new_empty`."""
    place = device or self.device
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach()
    if len(args) == 1 and (isinstance(args[0], numpy.ndarray) or not hasattr(args[0], "__index__") and type(args[0]).__name__ != "Size"):
        return tensor(args[0], dtype=self.dtype, device=place)
    return self.new_empty(*(args or (0,)), device=place)


define("new_tensor", _new_tensor)
define("new", _new)
