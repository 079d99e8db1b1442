"""Storages: the one-dimensional memory that a tensor shares with all its views, as bytes or as elements of one dtype."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy

from ..base import dtypes
from ..base.layout import contiguous_format, order, strides_of
from . import devices, inplace, tape, versions
from .from_data import from_file
from .from_lists import to_array
from .registry import registry
from .tensor import Tensor, define

_DEPRECATED = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
    "This should only matter to you if you are using storages directly.  "
    "To access UntypedStorage directly, use tensor.untyped_storage() instead of tensor.storage()"
)


def _flat(array: Any, dtype: Any) -> Any:
    """The whole storage of an array, as a 1-d array of a dtype."""
    owner = versions.storage(array)
    axes = sorted(range(owner.ndim), key=lambda d: -abs(owner.strides[d]))
    whole = owner.transpose(axes).reshape(-1)
    return whole if whole.dtype == dtype else whole.view(dtype)


class UntypedStorage:
    """A storage of bytes: `UntypedStorage(8)`, or `tensor.untyped_storage()`, which shares the tensor's memory."""

    __module__ = "torch.storage"
    _dtype: dtypes.dtype = dtypes.uint8
    _own = False  # whether it owns its memory, rather than sharing a tensor's
    _whole: Any = None  # the memory before `resize_` made it shorter
    filename: str | None = None  # the file that it is mapped from, if shared

    def __init__(self, size: Any = 0, *, device: Any = None):
        data = devices.making(device).zeros(size, numpy.uint8) if isinstance(size, int) else to_array(list(size), dtypes.uint8)
        self._own = True
        self.array = data if device is None else devices.move(data, devices.device(device))

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> Any:
        """Map the first `nbytes` bytes of a file into memory; with `shared`, writes reach the file, which grows if it is too short."""
        out = cls._of(from_file(filename, shared, nbytes, dtype=dtypes.uint8, device="cpu").array)
        out.filename = filename if shared and nbytes else None
        return out

    @classmethod
    def _of(cls, array: Any) -> Any:
        out = object.__new__(cls)
        out.array = array
        return out

    @property
    def device(self) -> devices.device:
        return devices.of(self.array)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes."""
        return self._tensor().is_shared()

    def size(self) -> int:
        """Return the number of elements, which are bytes in an untyped storage."""
        return self.array.size

    __len__ = size

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self.array.size * self.array.itemsize

    def element_size(self) -> int:
        """Return the size of one element in bytes."""
        return self.array.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._tensor().data_ptr()

    def _tensor(self) -> Tensor:
        return Tensor._wrap(self.array)

    def tolist(self) -> list:
        """Return the elements as a list of Python numbers."""
        return self._tensor().tolist()

    def __iter__(self) -> Iterator:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return self._tensor()[index].item()
        if not isinstance(index, slice):
            raise TypeError(f"can't index a torch.{type(self).__name__} with {type(index).__name__}")
        if isinstance(self, TypedStorage):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if index.step not in (None, 1):
            raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
        part = self.array[index]  # a new storage of the same memory: safetensors makes each tensor of such a slice, as its whole storage
        return self._of_like(
            self, numpy.frombuffer(memoryview(part), part.dtype) if part.__class__ is numpy.ndarray and part.size else part
        )

    @staticmethod
    def _of_like(storage: Any, array: Any) -> Any:
        out = object.__new__(type(storage))
        out.__dict__.update(storage.__dict__)
        out.array = array
        return out

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value.array if hasattr(value, "array") else value
        versions.note_write(self.array, "storage")

    def fill_(self, value: Any) -> Any:
        """Fill the storage with a number, and return it."""
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> Any:
        """Copy the elements of another storage into this one, and return it. Raises RuntimeError if the sizes differ."""
        if len(source) != len(self):
            raise RuntimeError(f"size mismatch: the storage has {len(self)} elements, the one to copy {len(source)}")
        self.array[...] = devices.move(source.array, self.device).astype(self.array.dtype)
        versions.note_write(self.array, "storage")
        return self

    def clone(self) -> Any:
        """Return a copy with its own memory."""
        out = type(self)._of_like(self, self.array.copy())
        out._own, out._whole = True, None
        return out

    def resize_(self, size: int) -> Any:
        """Change the number of elements in place; remaining elements keep their values, new ones are 0. Tensors keep sharing the memory.

        Raises RuntimeError if the storage of a tensor would have to grow, as it cannot be moved here; use `Tensor.resize_`.
        """
        if size < 0:
            raise RuntimeError(f"resize_: expected a size that is not negative, got {size}")
        whole = self.array if self._whole is None else self._whole
        if size > whole.size:
            if not self._own:
                raise RuntimeError(
                    f"resize_: the storage of a tensor cannot grow from {whole.size} to {size} elements here; use the tensor's resize_()"
                )
            grown = devices.namespace(whole).zeros(size, whole.dtype)
            grown[: self.array.size] = self.array
            whole = grown
        self._whole, self.array = whole, whole[:size]
        return self

    def cpu(self) -> Any:
        """Return a copy in CPU memory; itself if it is there already."""
        return self if self.device.type == "cpu" else type(self)._of_like(self, devices.move(self.array, devices.CPU))

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """Return the storage on a GPU; one that is there already shares its memory."""
        return type(self)._of_like(self, devices.move(self.array, devices.device("cuda" if device is None else device)))

    def untyped(self) -> UntypedStorage:
        """Return the storage itself, which has bytes as elements."""
        return self

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, type(self)) and versions.storage(self.array) is versions.storage(other.array)

    __hash__ = object.__hash__

    def _text(self) -> str:
        return f"[torch.storage.{type(self).__name__}(device={self.device}) of size {len(self)}]"

    def __repr__(self) -> str:
        if self.device.type == "meta":
            return f"...\n{self._text()}"
        values = self.tolist()
        shown = values if len(values) <= 1000 else [*values[:500], "...", *values[-500:]]
        return "\n".join([*(f" {v}" for v in shown), self._text()])


class TypedStorage(UntypedStorage):
    """A storage with elements of one dtype, which `tensor.storage()` returns. Deprecated, with a warning, as in PyTorch."""

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None):
        warnings.warn(_DEPRECATED, UserWarning, stacklevel=2)
        self._dtype = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
        self._own = wrap_storage is None
        if wrap_storage is not None:
            self.array = wrap_storage.array.view(self._dtype.numpy)
            return
        size = args[0] if args else 0
        data = devices.making(device).zeros(size, self._dtype.numpy) if isinstance(size, int) else to_array(list(size), self._dtype)
        self.array = data if device is None else devices.move(data, devices.device(device))

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> Any:
        """Raise RuntimeError: the dtype is unknown here; use `FloatStorage.from_file` and the like."""
        raise RuntimeError("from_file can only be called on derived classes")

    @property
    def dtype(self) -> dtypes.dtype:
        return self._dtype

    def untyped(self) -> UntypedStorage:
        """Return a storage of bytes that shares the memory."""
        return UntypedStorage._of(self.array.view(numpy.uint8))

    def type(self, dtype: Any = None) -> str:
        """Return the name of the storage's type, such as "torch.FloatStorage"."""
        return self._tensor().type().replace("Tensor", "Storage")

    def _text(self) -> str:
        return f"[torch.storage.TypedStorage(dtype={self._dtype!r}, device={self.device}) of size {len(self)}]"


class StorageType(type):
    """The metaclass of `FloatStorage`, ...: calling one makes a TypedStorage of its dtype, and `isinstance` checks that dtype."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, TypedStorage) and x.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> TypedStorage:
        """Return a storage of zeros from a number of elements, or with the values of a sequence."""
        return TypedStorage(*args, dtype=cls.dtype, device=device)

    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """Map the first `size` elements of a file into memory; with `shared`, writes reach the file."""
        bytes_ = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=bytes_, dtype=cls.dtype)


types = {
    f"{name}Storage": StorageType(f"{name}Storage", (), {"dtype": d, "__module__": "torch", "__doc__": f"Storages of {d.name}."})
    for name, d in {
        "Float": dtypes.float32, "Double": dtypes.float64, "Half": dtypes.float16, "BFloat16": dtypes.bfloat16, "Byte": dtypes.uint8,
        "Char": dtypes.int8, "Short": dtypes.int16, "Int": dtypes.int32, "Long": dtypes.int64, "Bool": dtypes.bool_,
        "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
    }.items()
}  # fmt: skip


# -- methods of Tensor ---------------------------------------------------------------------------------------------------------


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the storage that the tensor shares with all its views, as bytes."""
    return UntypedStorage._of(_flat(self.array, numpy.dtype(numpy.uint8)))


def storage(self: Tensor) -> TypedStorage:
    """Return the storage that the tensor shares with all its views, as elements of its dtype. Deprecated: use `untyped_storage`."""
    warnings.warn(_DEPRECATED, UserWarning, stacklevel=2)
    return _typed_storage(self)


def _typed_storage(self: Tensor) -> TypedStorage:
    """`storage` without the deprecation warning, for libraries that call it."""
    out = object.__new__(TypedStorage)
    out.array, out._dtype = _flat(self.array, self.array.dtype), self.dtype
    return out


def storage_type(self: Tensor) -> type:
    """Return the class of the tensor's storage."""
    return TypedStorage


def _row_major(shape: tuple) -> tuple:
    return tuple(math.prod(max(n, 1) for n in shape[i + 1 :]) for i in range(len(shape)))


def _no_recorded(tensor: Tensor, told: str) -> None:
    if tensor.requires_grad and tape.mode.grad:
        raise RuntimeError(told)


def _seen(flat: Any, shape: tuple, strides: tuple, offset: int) -> Any:
    """A view of a 1-d array with a shape, strides and offset. Raises RuntimeError if it is out of bounds."""
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in shape else offset
    if last > flat.size or offset < 0:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset} require {last} elements, "
            f"but the storage has {flat.size}"
        )
    xp = devices.namespace(flat)
    return xp.strided_view(flat, shape, strides, offset)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Replace the tensor's memory in place by that of a tensor or storage, with an offset, size and strides; without a source by none.

    Raises RuntimeError for another dtype or device, for a view out of bounds, and for a tensor that requires grad, unless in no_grad mode.
    """
    _no_recorded(self, "set_(): cannot change the memory of a tensor that requires grad; use no_grad or detach()")
    if source is None:
        self.array = devices.namespace(self.array).empty(0, self.array.dtype)
        return self
    if isinstance(source, Tensor) and size is None and source.is_meta == self.is_meta:
        if source.dtype is not self.dtype:
            raise RuntimeError(f"Could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}")
        self.array = source.array
        return self
    if source.device.type != self.device.type:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device "{source.device}".  '
            "This is no longer allowed; the devices must match."
        )
    flat = _flat(source.array, self.array.dtype)
    shape = (flat.size - storage_offset,) if size is None else tuple(size)
    self.array = _seen(flat, shape, _row_major(shape) if stride is None else tuple(stride), storage_offset)
    return self


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Change the size in place over the same memory, which grows if needed. Raises RuntimeError for a tensor that requires grad."""
    shape = tuple(sizes[0]) if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else tuple(sizes)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to resize storage with an invalid negative size: {list(shape)}")
    if shape == self.array.shape and memory_format is None and not self.requires_grad:
        return self
    changed, version = shape != self.array.shape, versions.version(self.array)
    _lay(self, shape, order(memory_format or contiguous_format, len(shape)))
    if changed and not (self if self._view is None else self._view[0])._apart:  # counts as a write, unless made by `.data`
        versions.note_write(self.array, "resize_", version + 1)  # also if it has grown and has a new storage
    return self


def _lay(self: Tensor, shape: tuple, axes: tuple) -> Tensor:
    """Change the size in place over the same memory, which grows if needed, with the axes in this order in memory."""
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    strides = strides_of(shape, axes)
    flat, offset, needed = _flat(self.array, self.array.dtype), self.storage_offset(), math.prod(shape)
    if offset + needed > flat.size:
        grown = devices.namespace(flat).zeros(offset + needed, flat.dtype)
        grown[: flat.size] = flat
        flat = grown
        _cut(self)
    views = [self] if self._view is not None else inplace.live(self._views)
    self.array = _seen(flat, shape, strides, offset)
    for view in views:  # the old view ops no longer fit the base's shape: describe each view by its strides
        (base, _) = view._view or (view, None)
        at = {"size": tuple(view.shape), "stride": view.stride(), "storage_offset": view.storage_offset()}
        source = tuple(base.shape), base.stride(), base.storage_offset()
        view._view = base, (None, (registry["strided_view"], {**at, "source": source}))
    return self


def _cut(self: Tensor) -> None:
    """Unlink a tensor that has new memory: it is no longer a view, and its views are no longer views of it."""
    for view in (self, *inplace.live(self._views)):
        view._view = None
    self._views = None


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Change the size in place to that of another tensor: see `resize_`."""
    return resize_(self, tuple(the_template.shape), memory_format=memory_format)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """Return the tensor with another shape of as many elements. Deprecated: use `reshape`."""
    warnings.warn("non-inplace resize is deprecated", UserWarning, stacklevel=2)
    return self.reshape(*sizes)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Return the tensor with the shape of another. Deprecated: use `reshape_as`."""
    warnings.warn("non-inplace resize_as is deprecated", UserWarning, stacklevel=2)
    return self.reshape(tuple(tensor.shape))


for _fn in (untyped_storage, storage, _typed_storage, storage_type, set_, _lay, resize_, resize_as_, resize, resize_as):
    define(_fn.__name__, _fn)
