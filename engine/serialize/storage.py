"""Storages of a checkpoint: the memory that its tensors share, and its placement by `map_location`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from ..backends.reference import strided
from ..base import dtypes
from ..core import devices
from ..core.storage import TypedStorage, UntypedStorage
from ..core.tensor import Tensor
from .errors import CheckpointError, told

_TYPED = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexDouble": "complex128", "ComplexFloat": "complex64",
}  # fmt: skip
STORAGES = {f"{name}Storage": dtypes.BY_NAME[d] for name, d in _TYPED.items()}  # PyTorch's storage classes
CLASS_OF = {d: name for name, d in STORAGES.items()}  # newer dtypes have no class and are stored untyped
UNTYPED = "untyped storage"

_MAX_DIMS, _LIMIT = 64, 1 << 62


class Storage:
    """The bytes behind a checkpoint's tensors, on their device."""

    def __init__(self, data: Any, dtype: dtypes.dtype | None):
        self.data, self.dtype = data, dtype  # data has dtype uint8; a dtype of None means untyped

    def nbytes(self) -> int:
        return self.data.size

    def size(self) -> int:
        """Return the number of elements."""
        return self.data.size // (1 if self.dtype is None else self.dtype.itemsize)

    def to(self, device: Any) -> Storage:
        """Return the storage on `device`, or itself if it is already there."""
        moved = devices.move(self.data, devices.device(device))
        return self if moved is self.data else Storage(moved, self.dtype)

    def changed(self, d: dtypes.dtype, change: Callable[[Any], Any]) -> Storage:
        """Return a new storage with `change` applied to the elements."""
        return Storage(change(self.data[: self.data.size // d.itemsize * d.itemsize].view(d.numpy)).view(numpy.uint8), self.dtype)

    def seen_as(self, d: dtypes.dtype, offset: int, size: Any, stride: Any) -> Any:
        """Return an array of the given offset, shape and strides (in elements) over the storage, after checking its bounds."""
        if not (_counts(size) and _counts(stride) and len(size) == len(stride) <= _MAX_DIMS and _counts((offset,))):
            raise CheckpointError(f"load: a tensor of shape {told(size)}, strides {told(stride)} and offset {told(offset)} cannot be")
        if self.dtype is not None and d is not self.dtype:
            raise CheckpointError(f"load: a {d.name} tensor in a storage of {self.dtype.name}")
        n, there = math.prod(size), self.data.size // d.itemsize
        last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True)) if n else offset - 1
        if last >= there or n * d.itemsize >= _LIMIT or any(step * d.itemsize >= _LIMIT for step in stride):
            raise CheckpointError(
                f"load: a tensor of shape {tuple(size)}, strides {tuple(stride)} and offset {offset} needs {last + 1} elements, "
                f"its storage has {there} of {d.name}"
            )
        if not isinstance(self.data, numpy.ndarray):
            devices.move(numpy.empty(0, d.numpy), devices.of(self.data))  # raises the device's error for unsupported dtypes
            whole = self.data[: there * d.itemsize].view(d.numpy)
            return strided(whole[offset:], tuple(size), tuple(step * d.itemsize for step in stride)) if n else whole[:0].reshape(size)
        if n == 0:
            return devices.namespace(self.data).empty(tuple(size), d.numpy)
        strides = tuple(step * d.itemsize for step in stride)
        if self.data.ctypes.data % d.itemsize:  # unaligned, in a mapped file of another writer
            self.data = self.data.copy()
        return self.data.__class__(tuple(size), d.numpy, self.data, offset * d.itemsize, strides)


def _counts(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and all(type(n) is int and 0 <= n < _LIMIT for n in x)


def swap(data: numpy.ndarray, d: dtypes.dtype) -> numpy.ndarray:
    """Convert bytes of the other byte order to this machine's."""
    width = d.itemsize // 2 if d.is_complex else d.itemsize
    return numpy.ascontiguousarray(data.reshape(-1, width)[:, ::-1]).reshape(-1)


def check(data: numpy.ndarray, d: dtypes.dtype | None) -> None:
    """Refuse bytes that are invalid for the dtype: arithmetic on a bool that holds 2 is undefined."""
    if d is dtypes.bool_ and data.size and data.max() > 1:
        raise CheckpointError("load: a storage of bool holds bytes other than 0 and 1")


def restore(storage: Storage, location: Any) -> Storage:
    """Move a storage to the location in the file, such as "cpu" or "cuda:1". Raises RuntimeError if the device is missing."""
    name = str(location)
    if name.startswith("cuda") and not devices.cuda_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only "
            "machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
        )
    if not name.startswith(("cpu", "cuda", "meta")):
        raise RuntimeError(f"don't know how to restore data location of a storage (tagged with {name}); give load a map_location")
    return storage.to(location)


def placing(map_location: Any) -> Callable[[Storage, Any], Storage]:
    """Return the placement function for `map_location`: None, a device, a dict, or a function `(storage, location) -> storage or None`."""
    if map_location is None:
        return restore
    if isinstance(map_location, Mapping):
        return lambda storage, location: restore(storage, map_location.get(location, location))
    if isinstance(map_location, (str, int, devices.device)):
        place = devices.device(map_location)
        return lambda storage, location: restore(storage, place)
    if not callable(map_location):
        raise TypeError(f"load: map_location must be a device, a dict or a function, got a {type(map_location).__name__}")

    def asked(storage: Storage, location: Any) -> Storage:
        found = map_location(UntypedStorage._of(storage.data), location)
        if found is None:
            return restore(storage, location)
        if not isinstance(found, UntypedStorage):
            raise TypeError(f"load: map_location must return the storage, moved or not, or None; it returned a {type(found).__name__}")
        return storage if found.array is storage.data else Storage(found.array, storage.dtype)

    return asked


def storage_of(storage: Storage) -> UntypedStorage:
    """Wrap a storage as the public `TypedStorage` or `UntypedStorage`."""
    if storage.dtype is None:
        out = UntypedStorage._of(storage.data)
    else:
        out = TypedStorage._of(storage.data.view(storage.dtype.numpy))
        out._dtype = storage.dtype
    out._bytes = storage
    return out


def bytes_of(storage: Any) -> Storage:
    """Return the `Storage` that `storage_of` wrapped."""
    return storage._bytes


def without_data(d: dtypes.dtype, size: Any, stride: Any) -> Any:
    """Return an array on the "meta" device, which has a shape but no data."""
    if not (_counts(size) and _counts(stride) and len(size) == len(stride) <= _MAX_DIMS):
        raise CheckpointError(f"load: a tensor of shape {told(size)} and strides {told(stride)} cannot be")
    reach = 0 if 0 in size else sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if max(reach, math.prod(size)) * d.itemsize >= _LIMIT:
        raise CheckpointError(f"load: a tensor of shape {tuple(size)} and strides {tuple(stride)} is too large")
    xp = devices.making(devices.META)
    return xp.strided(xp.empty(reach, d.numpy), tuple(size), tuple(s * d.itemsize for s in stride))


def tensor_of(array: Any, requires_grad: bool, kind: type = Tensor) -> Tensor:
    """Return a leaf tensor over `array`."""
    out = object.__new__(kind)
    out.array, out.node = array, None
    return out.requires_grad_() if requires_grad else out
