"""The pickler behind `save`: tensors are written under PyTorch's names so that PyTorch can read them."""

from __future__ import annotations

import io
import pickle
import types
from collections import OrderedDict
from typing import Any

import numpy

from ..base import dtypes, return_types
from ..base.layout import layout, sparse_coo, strided
from ..core import devices, versions
from ..core.public import name_of
from ..core.storage import TypedStorage, UntypedStorage
from ..core.subclasses import methods
from ..core.tensor import NOT_KEPT, Size, Tensor
from ..nn import init
from ..nn.parameter import Buffer, Parameter, is_lazy
from .storage import CLASS_OF


class _Name:
    """A global name in the pickle that need not be importable here."""

    def __init__(self, module: str, name: str):
        self.text = f"c{module}\n{name}\n".encode()

    def __call__(self, *args: Any) -> Any:  # the pickler requires functions to be callable
        raise NotImplementedError


_TENSOR, _UNTYPED_TENSOR = (_Name("torch._utils", f"_rebuild_tensor_{v}") for v in ("v2", "v3"))
_META_TENSOR = _Name("torch._utils", "_rebuild_meta_tensor_no_storage")
_PARAMETER, _PARAMETER_WITH_STATE = (_Name("torch._utils", f"_rebuild_parameter{s}") for s in ("", "_with_state"))
_TYPED, _TENSOR_CLASS = _Name("torch._tensor", "_rebuild_from_type_v2"), _Name("torch", "Tensor")
_SPARSE, _LAYOUT = _Name("torch._utils", "_rebuild_sparse_tensor"), _Name("torch.serialization", "_get_layout")
_SIZE, _DEVICE = _Name("torch", "Size"), _Name("torch", "device")
_STORAGES = {d: _Name("torch", name) for d, name in CLASS_OF.items()}
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_DTYPES = {d: _Name("torch", d.name) for d in dtypes.ALL}


class _StorageId(tuple):
    """The persistent ID of a storage."""


_Pickler: Any = pickle._Pickler  # type: ignore[attr-defined]  the Python one: the C pickler requires every name to be importable


class Writer(_Pickler):
    """Pickles an object into `self.text` and collects its tensors' storages."""

    dispatch: dict[type, Any] = dict(_Pickler.dispatch)

    def __init__(self, protocol: int, legacy: bool = False):
        self.text, self.legacy = io.BytesIO(), legacy
        super().__init__(self.text, protocol)
        self.storages: list[tuple[Any, int]] = []  # (owning array, number of elements); the index is the storage's key
        self._known: dict[int, tuple[dtypes.dtype, _StorageId]] = {}  # by address

    def run(self, obj: Any) -> bytes:
        """Return the pickle of an object."""
        try:
            self.dump(obj)
        except RecursionError:
            raise RecursionError("save: the object is nested too deeply, or refers to itself in a way that cannot be written") from None
        return self.text.getvalue()

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, UntypedStorage):
            return tuple(self._whole(obj))
        return tuple(obj) if type(obj) is _StorageId else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self._lazy(obj) if is_lazy(obj) else self._tensor(obj) if obj.layout is strided else _sparse(obj)
        kind = type(obj)
        if kind is layout:
            return _LAYOUT, (repr(obj),)
        if vars(return_types).get(kind.__name__) is kind and isinstance(obj, tuple):
            return _Name("torch.return_types", kind.__name__), (tuple(obj), {})
        if kind is Size:
            return _SIZE, (tuple(map(int, obj)),)
        if kind is devices.device:
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _lazy(self, x: Any) -> Any:
        return type(x), (x._wants_grad, str(x.device), x.dtype)

    def _tensor(self, x: Tensor) -> Any:
        shape, grads = tuple(map(int, x.shape)), False if isinstance(x, Parameter) else x.requires_grad
        if x.is_meta:
            make, args = _META_TENSOR, (_DTYPES[x.dtype], shape, x.stride(), grads)
        else:
            storage, offset, stride = self._storage(x)
            make, args = _TENSOR, (storage, offset, shape, stride, grads, OrderedDict())
            if x.dtype not in _STORAGES:
                make, args = _UNTYPED_TENSOR, (*args, _DTYPES[x.dtype])
        kind = type(x)
        state = {k: v for k, v in x.__dict__.items() if k not in NOT_KEPT}
        if kind is Parameter:
            data = _Made(make, args)
            grads = x.requires_grad
            return (_PARAMETER_WITH_STATE, (data, grads, OrderedDict(), state)) if state else (_PARAMETER, (data, grads, OrderedDict()))
        if kind is Buffer:
            state |= {"persistent": x.persistent, "_is_buffer": True}  # type: ignore[attr-defined]
            kind = Tensor
        if kind is Tensor and not state:
            return make, args
        return _TYPED, (make, _TENSOR_CLASS if kind is Tensor else kind, args, state)

    def _storage(self, x: Tensor) -> tuple[_StorageId, int, tuple]:
        """Return a tensor's storage, offset and strides. Layouts that PyTorch's strides cannot express are copied."""
        owner, array, d = versions.storage(x.array), x.array, x.dtype
        width = d.itemsize
        start, left = divmod(_address(array) - _address(owner), width)
        fits = _is_dense(owner) and start >= 0 and not left and owner.nbytes % width == 0
        if not fits or not array.size or any(s < 0 or s % width for s in array.strides):
            owner, start = devices.namespace(array).ascontiguousarray(array), 0
            array = owner
        strides = tuple(s // width for s in array.strides)
        if not array.size:  # NumPy's strides of empty arrays are all equal; PyTorch treats an empty dimension as 1
            strides = tuple(int(numpy.prod([max(n, 1) for n in array.shape[i + 1 :]], dtype=object)) for i in range(array.ndim))
        return self._stored(owner, d), start, strides

    def _whole(self, x: UntypedStorage) -> _StorageId:
        """Return the ID of a storage object; part of a storage is copied first."""
        owner = versions.storage(x.array)
        if not _is_dense(owner) or owner.nbytes != x.nbytes() or _address(owner) != _address(x.array):
            owner = devices.namespace(x.array).ascontiguousarray(x.array)
        return self._stored(owner, x._dtype, not isinstance(x, TypedStorage))

    def _stored(self, owner: Any, d: dtypes.dtype, untyped: bool = False) -> _StorageId:
        place = _address(owner) if owner.size else id(owner)
        known = self._known.get(place)
        if known is not None:
            if known[0] is not d:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as different types: "
                    f"{known[0].name} and {d.name}. Save a clone() of one of them."
                )
            return known[1]
        device = devices.of(owner)
        kind = _UNTYPED if untyped else _STORAGES.get(d, _UNTYPED)
        n = owner.nbytes if kind is _UNTYPED else owner.nbytes // d.itemsize
        location = device.type if device.type == "cpu" else f"cuda:{device.index or 0}"
        made = _StorageId(("storage", kind, str(len(self.storages)), location, n, *([None] if self.legacy else [])))
        self._known[place] = d, made
        self.storages.append((owner, n))
        return made

    def save_name(self, obj: _Name) -> None:
        found = self.memo.get(id(obj))
        if found is not None:
            self.write(self.get(found[0]))
            return
        self.write(obj.text)
        self.memoize(obj)

    def save_made(self, obj: _Made) -> None:
        self.save_reduce(obj.function, obj.args)

    def save_function(self, obj: Any) -> None:
        """Write functions and methods that exist in PyTorch under PyTorch's names."""
        method = methods.get(obj.__name__)
        if method is not None and method.function is obj:
            self.save_reduce(_Name("builtins", "getattr"), (_TENSOR_CLASS, obj.__name__), obj=obj)
            return
        home, _, name = (name_of(obj) or "").rpartition(".")
        if not name and vars(init).get(obj.__name__) is obj:
            home, name = "nn.init", obj.__name__
        if name:
            self.save_name(_Name(f"torch.{home}" if home else "torch", name))
        else:
            self.save_global(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a class whose module is `torch` by name, without checking that it can be imported from there."""
        if isinstance(obj, type) and obj.__module__.split(".")[0] == "torch":
            self.save_name(_Name(obj.__module__, obj.__qualname__))
        else:
            super().save_global(obj, name)

    def save_dtype(self, obj: dtypes.dtype) -> None:
        self.save_name(_DTYPES[obj])

    def save_class(self, obj: type) -> None:
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch |= {_Name: save_name, dtypes.dtype: save_dtype, types.FunctionType: save_function, type: save_class}


class _Made:
    """A call in the pickle that corresponds to no object here."""

    def __init__(self, function: _Name, args: tuple):
        self.function, self.args = function, args


Writer.dispatch[_Made] = Writer.save_made


def _sparse(x: Any) -> Any:
    if x.layout is sparse_coo:
        return _SPARSE, (x.layout, (x._indices(), x._values(), x.size(), x.is_coalesced()))
    return _SPARSE, (x.layout, (x.crow_indices(), x.col_indices(), x.values(), x.size()))


def flat_bytes(owner: Any) -> numpy.ndarray:
    """Return all bytes of a dense array in memory order, on the host."""
    return numpy.ascontiguousarray(devices.move(owner.ravel(order="K"), devices.CPU)).reshape(-1).view(numpy.uint8)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0] if isinstance(array, numpy.ndarray) else array.data.ptr


def _is_dense(array: Any) -> bool:
    """Return whether the elements fill one block of memory that starts at the first, in any order of dimensions."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    step = array.itemsize
    for stride, n in sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= n
    return True
