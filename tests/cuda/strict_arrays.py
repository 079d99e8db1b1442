"""The array class of the stand-in for CuPy: elements in the host's memory, behavior and refusals as CuPy's."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import host_cuda
import numpy
from cupy._core import _scalar
from cupy._core.flags import Flags
from syncs import as_one, called, record

quiet = functools.partial(numpy.errstate, all="ignore")  # a GPU has no warnings for overflow, division by zero and nan
UNSUPPORTED = "Unsupported type {}"
CORE: dict[str, Any] = {}  # the functions of CuPy's core by name, which `strict` fills


# -- arrays ------------------------------------------------------------------------------------------------------------------


def supported(dtype: Any) -> numpy.dtype:
    """The dtype, if CuPy has it; else ValueError."""
    dtype = numpy.dtype(dtype)
    try:
        _scalar.get_typename(dtype)
    except (ValueError, KeyError):
        raise ValueError(f"Unsupported dtype {dtype}") from None
    return dtype


class ndarray:
    """An array on the imaginary GPU. NumPy does not take it for one of its own, and it takes none of NumPy's."""

    __slots__ = ("_host", "data", "base", "__weakref__")
    __module__ = "cupy"
    __array_priority__ = 100
    __class_getitem__ = classmethod(types.GenericAlias)  # type: ignore[var-annotated]
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> None:
        shape, dtype = (shape,) if isinstance(shape, int) else tuple(shape), supported(dtype)
        size = dtype.itemsize * int(numpy.prod(shape, dtype=numpy.int64))
        self.data = host_cuda.alloc(size) if memptr is None else memptr
        at = self.data.ptr - self.data.mem.ptr
        self._host = numpy.ndarray(shape, dtype, self.data.mem.buffer, at, strides, order)
        self.base = None

    # -- what it is --

    shape = property(lambda self: self._host.shape, lambda self, shape: setattr(self._host, "shape", shape))
    strides = property(lambda self: self._host.strides)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    device = property(lambda self: self.data.device)

    def _set_shape_and_strides(self, shape: tuple, strides: tuple, c_contiguity: bool, f_contiguity: bool) -> None:
        at = self.data.ptr - self.data.mem.ptr
        self._host = numpy.ndarray(shape, self._host.dtype, self.data.mem.buffer, at, strides)

    _c_contiguous = property(lambda self: self._host.flags.c_contiguous)
    _f_contiguous = property(lambda self: self._host.flags.f_contiguous)

    @property
    def flags(self) -> Flags:
        return Flags(self._host.flags.c_contiguous, self._host.flags.f_contiguous, self.base is None)

    @property
    def __cuda_array_interface__(self) -> dict:
        described = {**self._host.__array_interface__, "version": 3, "stream": 1}
        return {**described, "data": (self.data.ptr, False), "strides": None if self.flags.c_contiguous else self.strides}

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> ndarray:
        return self.copy() if copy else self  # in place of a capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device.id  # 2 is CUDA

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        told = "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
        raise TypeError(told)

    def __array_ufunc__(self, ufunc: numpy.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        own = getattr(sys.modules["cupy"], ufunc.__name__, None)
        if own is None:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return own(*inputs, **kwargs) if method == "__call__" else getattr(own, method)(*inputs, **kwargs)

    def __array_function__(self, func: Callable, types: Any, args: tuple, kwargs: dict) -> Any:
        try:
            module = functools.reduce(getattr, func.__module__.split(".")[1:], sys.modules["cupy"])
            own = getattr(module, func.__name__)
        except AttributeError:
            return NotImplemented
        if own is func or not all(kind in (ndarray, numpy.ndarray) for kind in types):
            return NotImplemented
        return own(*args, **kwargs)

    # -- to the host --

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> numpy.ndarray:
        if self.size and blocking:
            record("get")
        if out is None:
            return self._host.copy(order)
        host = self._host  # the memory, without keeping it from being reused
        host_cuda.submit(lambda: numpy.copyto(out, host))
        return out

    def set(self, arr: numpy.ndarray, stream: Any = None) -> None:
        if not isinstance(arr, numpy.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        self._host[...] = arr

    def item(self) -> Any:
        with as_one("item"):
            return self.get().item()

    def tolist(self) -> Any:
        with as_one("tolist"):
            return self.get().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        with as_one("tobytes"):
            return self.get().tobytes(order)

    def __repr__(self) -> str:
        with as_one("repr"):
            return repr(self.get())

    def __format__(self, spec: str) -> str:
        with as_one("format"):
            return format(self.get(), spec)

    def __reduce__(self) -> tuple:
        with as_one("pickle"):
            return array, (self.get(),)

    # -- elements --

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> ndarray:
        key, advanced = index(self, key)
        found = numpy.asarray(self._host[key])
        return new(found) if advanced else view(self, found)

    def __setitem__(self, key: Any, value: Any) -> None:
        whole = isinstance(key, slice) and key == slice(None)
        if whole and isinstance(value, numpy.ndarray):
            if (self.dtype, self.shape) != (value.dtype, value.shape):
                told = "copying a numpy.ndarray to a cupy.ndarray by empty slice assignment must ensure arrays have same shape and dtype"
                raise ValueError(told)
            self._host[...] = value
            return
        key, advanced = index(self, key)
        with quiet():
            if not advanced:
                self._host[key] = value._host.astype(self.dtype) if isinstance(value, ndarray) else _number(value)
                return
            value = value._host if isinstance(value, ndarray) else numpy.asarray(value)
            # of equal places, any may be written last: here the first
            places = numpy.arange(self.size).reshape(self.shape)[key]
            values = numpy.broadcast_to(value, places.shape).astype(self.dtype)
            self._host[numpy.unravel_index(places.reshape(-1)[::-1], self.shape)] = values.reshape(-1)[::-1]

    def fill(self, value: Any) -> None:
        self._host[...] = _number(value)

    def _scatter_op(self, key: Any, value: Any, op: str) -> None:
        if self.dtype.char not in "iIlLqQfd" + "e" * (op == "add"):  # those with atomic operations
            half = "float16, " if op == "add" else ""
            full = {"max": "maximum", "min": "minimum"}.get(op, op)
            raise TypeError(f"cupy.{full}.at only supports int32, int64, {half}float32, float64, uint32, uint64 as data type")
        key, advanced = index(self, key)
        value = value._host if isinstance(value, ndarray) else numpy.asarray(value)
        at = {"add": numpy.add, "max": numpy.maximum, "min": numpy.minimum, "sub": numpy.subtract}[op].at
        at(self._host, key, numpy.broadcast_to(value, self._host[key].shape).astype(self.dtype))

    def take(self, indices: Any, axis: int | None = None, out: Any = None) -> ndarray:
        indices = indices if isinstance(indices, ndarray) else array(indices, dtype=int)
        n = self.size if axis is None else (self.shape or (1,))[axis]
        if not n and indices.size:
            raise IndexError("cannot do a non-empty take from an empty axes.")
        return new(numpy.take(self._host, indices._host % max(n, 1), axis), out)

    def put(self, indices: Any, values: Any, mode: str = "wrap") -> None:
        if mode == "raise":
            record("put")
        numpy.put(self._host, array(indices)._host, array(values, self.dtype)._host, mode)

    def nonzero(self) -> tuple[ndarray, ...]:
        if not self.ndim:
            raise DeprecationWarning("calling nonzero on 0d arrays is deprecated")
        waited("nonzero", int)
        return tuple(map(new, numpy.nonzero(self._host)))

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> ndarray:
        return self.take(array(condition).nonzero()[0], axis, out)

    def repeat(self, repeats: Any, axis: int | None = None) -> ndarray:
        if isinstance(repeats, ndarray):
            raise ValueError("cupy.ndaray cannot be specified as `repeats` argument.")
        return new(numpy.repeat(self._host, repeats, axis))

    # -- views and copies --

    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))

    @property
    def real(self) -> ndarray:
        return view(self, self._host.real) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> ndarray:
        return view(self, self._host.imag) if self.dtype.kind == "c" else new(numpy.zeros_like(self._host))

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag[...] = value

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return view(self, self._host.view() if dtype is None else self._host.view(supported(dtype)))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> ndarray:
        return view(self, self._host.reshape(*shape, order=order))

    def ravel(self, order: str = "C") -> ndarray:
        return view(self, self._host.ravel(order))

    def transpose(self, *axes: Any) -> ndarray:
        return view(self, self._host.transpose(*axes))

    def swapaxes(self, axis1: int, axis2: int) -> ndarray:
        return view(self, self._host.swapaxes(axis1, axis2))

    def squeeze(self, axis: Any = None) -> ndarray:
        return view(self, self._host.squeeze(axis))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
        return view(self, self._host.diagonal(offset, axis1, axis2))

    def reduced_view(self) -> ndarray:
        return self.reshape(-1) if self.flags.c_contiguous else self

    def astype(self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True) -> ndarray:
        dtype = supported(dtype)
        with quiet():
            found = self._host.astype(dtype, order, casting or "unsafe", copy=copy)
        return self if found is self._host else new(found, order=order)

    def copy(self, order: str = "C") -> ndarray:
        return new(self._host, order=order)

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: dict) -> ndarray:
        return self.copy("K")

    def flatten(self, order: str = "C") -> ndarray:
        return new(self._host.flatten(order))

    def conj(self) -> ndarray:
        return CORE["conjugate"](self) if self.dtype.kind == "c" else self

    conjugate = conj

    # -- reductions and orders --

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return CORE["sum_auto_dtype" if dtype is None else "_sum_keep_dtype"](self, axis, dtype, out, keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return CORE["prod_auto_dtype" if dtype is None else "_prod_keep_dtype"](self, axis, dtype, out, keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return CORE["amax"](self, axis, None, out, keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return CORE["amin"](self, axis, None, out, keepdims)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return CORE["all"](self, axis, None, out, keepdims)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return CORE["any"](self, axis, None, out, keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return new(numpy.mean(self._host, axis, dtype, keepdims=keepdims), out)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> ndarray:
        return new(numpy.var(self._host, axis, dtype, ddof=ddof, keepdims=keepdims), out)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> ndarray:
        return new(numpy.std(self._host, axis, dtype, ddof=ddof, keepdims=keepdims), out)

    def argmax(self, axis: Any = None, out: Any = None, dtype: Any = None, keepdims: bool = False) -> ndarray:
        return new(numpy.argmax(self._host, axis, keepdims=keepdims).astype(dtype or numpy.int64), out)

    def argmin(self, axis: Any = None, out: Any = None, dtype: Any = None, keepdims: bool = False) -> ndarray:
        return new(numpy.argmin(self._host, axis, keepdims=keepdims).astype(dtype or numpy.int64), out)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> ndarray:
        return new(numpy.cumsum(self._host, axis, dtype), out)

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> ndarray:
        return new(numpy.cumprod(self._host, axis, dtype), out)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> ndarray:
        return self.diagonal(offset, axis1, axis2).sum(-1, dtype, out)

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> ndarray:
        return CORE["clip"](self, min, max, out=out)

    def round(self, decimals: int = 0, out: Any = None) -> ndarray:
        return new(numpy.round(self._host, decimals), out)

    def sort(self, axis: int = -1, kind: str | None = None) -> None:
        self._sortable(kind)
        self._host.sort(axis, kind="stable")

    def argsort(self, axis: int = -1, kind: str | None = None) -> ndarray:
        self._sortable(kind)
        return new(self._host.argsort(axis, kind="stable"))

    def _sortable(self, kind: str | None) -> None:
        if kind not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
        if not self.ndim:
            raise numpy.exceptions.AxisError("Sorting arrays with the rank of zero is not supported")
        if self.dtype.kind == "V":
            raise TypeError(f"Sorting arrays with dtype '{self.dtype}' is not supported")

    def partition(self, kth: int, axis: int = -1) -> None:
        self._sortable(None)
        self._host.partition(kth, axis)

    def argpartition(self, kth: int, axis: int = -1) -> ndarray:
        self._sortable(None)
        return new(self._host.argpartition(kth, axis))

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> ndarray:
        return sys.modules["cupy"].searchsorted(self, v, side, sorter)

    def dot(self, b: Any, out: Any = None) -> ndarray:
        return CORE["dot"](self, b, out)


def _number(value: Any) -> Any:
    """What CuPy fills an array with: a number, also from a 0-d array of NumPy."""
    if isinstance(value, numpy.ndarray):
        if value.shape:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        return value.item()
    if not numpy.isscalar(value):
        raise TypeError(UNSUPPORTED.format(type(value)))
    return value


def new(found: Any, out: Any = None, order: str = "C") -> ndarray:
    """A result of NumPy as a new array, row-major unless `order` says otherwise, or written into `out`."""
    found = numpy.asarray(found)
    if out is not None:
        out._host[...] = found
        return out
    strides = numpy.empty_like(found, order=order).strides if found.size else None
    out = ndarray(found.shape, found.dtype, strides=strides)
    out._host[...] = found
    return out


def view(of: ndarray, found: numpy.ndarray) -> ndarray:
    """NumPy's view of the memory of `of` as an array, always writable; what is no view becomes a new array."""
    if found.size and not numpy.may_share_memory(found, of._host):
        return new(found)
    at = found.__array_interface__["data"][0] - of.data.mem.ptr if found.size else 0
    out = ndarray(found.shape, found.dtype, host_cuda.MemoryPointer(of.data.mem, at), found.strides)
    out.base = of if of.base is None else of.base
    return out


def from_interface(obj: Any) -> ndarray:
    """An array over the memory of an object with `__cuda_array_interface__`, which it keeps alive."""
    told = obj.__cuda_array_interface__
    dtype, pointer = numpy.dtype(told["typestr"]), told["data"][0]
    memory = host_cuda.foreign(pointer, int(numpy.prod(told["shape"])) * dtype.itemsize, obj)
    return ndarray(told["shape"], dtype, host_cuda.MemoryPointer(memory, 0), told.get("strides"))


def waited(what: str, kind: type) -> None:
    """Read a number from the GPU, as CuPy does there by int() or bool() of an array."""
    with called(what):
        kind(ndarray((), numpy.int64))


def index(x: ndarray, key: Any) -> tuple[tuple, bool]:
    """A key for NumPy, and whether CuPy would copy. Integers in arrays wrap around; a boolean mask makes the host wait."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for i, k in enumerate(keys):
        if k is None or k is Ellipsis or isinstance(k, (slice, ndarray)) or numpy.isscalar(k) and not isinstance(k, (bool, numpy.bool_)):
            continue
        keys[i] = array(k)
        if isinstance(k, (list, tuple)) and not keys[i].size:
            keys[i] = keys[i].astype(numpy.int32)
    taken = [k.ndim if isinstance(k, ndarray) and k.dtype.kind == "b" else k is not None and k is not Ellipsis for k in keys]
    axis, advanced = 0, False
    for i, k in enumerate(keys):
        if isinstance(k, ndarray):
            advanced = True
            if k.dtype.kind == "b":
                if k.size:
                    waited("boolean mask", int)
                keys[i] = k._host
            elif k.dtype.kind in "iu":
                n = x.shape[axis] if axis < x.ndim else 1
                if not n and k.size:
                    raise IndexError("cannot do a non-empty take from an empty axes.")
                keys[i] = numpy.asarray(k._host.astype(numpy.int64) % max(n, 1))
            else:
                raise IndexError(f"arrays used as indices must be of integer or boolean type. (actual: {k.dtype.type})")
        axis = x.ndim - sum(taken[i + 1 :]) if k is Ellipsis else axis + taken[i]
    return tuple(keys), advanced


def array(
    obj: Any, dtype: Any = None, copy: bool | None = True, order: str | None = "K", subok: bool = False, ndmin: int = 0,
    blocking: bool = False,
) -> ndarray:  # fmt: skip
    """`cupy.array`: from an array, numbers, NumPy's arrays (copied to the GPU, for which the host need not wait) and lists of them."""
    if isinstance(obj, ndarray):
        out = obj.astype(obj.dtype if dtype is None else dtype, order or "K", copy=bool(copy))
        if order in ("C", "F") and not out.flags[f"{order}_CONTIGUOUS"]:
            out = out.copy(order)
        return out.reshape((1,) * (ndmin - out.ndim) + out.shape) if out.ndim < ndmin else out
    if isinstance(obj, (list, tuple)) and obj and isinstance(obj[0], ndarray):
        return sys.modules["cupy"].stack([array(one, dtype) for one in obj])
    if hasattr(obj, "__cuda_array_interface__"):
        return array(from_interface(obj), dtype, copy, order, subok, ndmin)
    found = numpy.array(obj, dtype, order=order or "K", ndmin=ndmin)
    supported(found.dtype)
    host_cuda.alloc_pinned_memory(found.nbytes)  # through which CuPy copies
    return new(found, order=order or "K")


def arrays_of(arrays: Any) -> list[numpy.ndarray]:
    """What is behind these arrays; TypeError if one is no array of CuPy's, ValueError if it is not on the current GPU."""
    for one in arrays:
        if not isinstance(one, ndarray):
            raise TypeError(UNSUPPORTED.format(type(one)))
        if one.device.id != host_cuda.current_device():  # these GPUs cannot read one another's memory
            here = host_cuda.current_device()
            raise ValueError(f"Array device must be same as the current device: array device = {one.device.id} while current = {here}")
    return [one._host for one in arrays]


for _name in (
    "__getitem__", "__setitem__", "fill", "_scatter_op", "take", "put", "repeat", "reshape", "ravel", "astype", "copy", "flatten", "mean", "var",
    "std", "argmax", "argmin", "cumsum", "cumprod", "trace", "round", "sort", "argsort", "partition", "argpartition", "searchsorted", "dot",
):  # fmt: skip
    setattr(ndarray, _name, host_cuda.captured(getattr(ndarray, _name)))


# -- operators ---------------------------------------------------------------------------------------------------------------


def _operator(name: str, function: str, swapped: bool = False) -> Callable:
    def operator(self: ndarray, other: Any) -> Any:
        if not isinstance(other, (ndarray, bool, int, float, complex, numpy.generic, numpy.ndarray)):
            return NotImplemented
        return CORE[function](other, self) if swapped else CORE[function](self, other)

    operator.__name__ = name
    return operator


def _in_place(name: str, function: str) -> Callable:
    def operator(self: ndarray, other: Any) -> Any:
        return CORE[function](self, other, self)

    operator.__name__ = name
    return operator


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
    "matmul": "matmul", "divmod": "divmod",
}  # fmt: skip
for _name, _function in _BINARY.items():
    setattr(ndarray, f"__{_name}__", _operator(_name, _function))
    setattr(ndarray, f"__r{_name}__", _operator(_name, _function, swapped=True))
    if _name not in ("matmul", "divmod"):
        setattr(ndarray, f"__i{_name}__", _in_place(_name, _function))
_COMPARED = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
for _name, _function in _COMPARED.items():
    setattr(ndarray, f"__{_name}__", _operator(_name, _function))
for _name, _function in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}.items():
    setattr(ndarray, f"__{_name}__", lambda self, function=_function: CORE[function](self))


def _converted(kind: type) -> Callable:
    def convert(self: ndarray) -> Any:
        with as_one(kind.__name__):
            return kind(self.get())

    return convert


for _kind in (bool, int, float, complex):
    setattr(ndarray, f"__{_kind.__name__}__", _converted(_kind))
