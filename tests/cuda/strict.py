"""CuPy without a GPU: CuPy's own Python code over arrays in the host's memory.

CuPy is Python on top of a compiled core (`cupy._core`, `cupy.cuda`). Here the Python part runs as it is, imported a second time, and
the core is replaced: its array class by `ndarray` below, its kernels by NumPy's and SciPy's functions. Element types, promotion and
signatures come from the real package, which imports without a driver; so a call that CuPy refuses is refused here, with CuPy's error.
A part of the core that nothing here replaces raises NotImplementedError.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import cupy as real
import cupyx.scipy.special as real_special
import numpy
import scipy.special
from cupy._core import _routines_logic, _routines_math, _routines_statistics, _scalar
from cupy._core.flags import Flags

import host_cuda
from syncs import as_one, record

quiet = functools.partial(numpy.errstate, all="ignore")  # a GPU has no warnings for overflow, division by zero and nan
UNSUPPORTED = "Unsupported type {}"


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
    _c_contiguous = property(lambda self: self._host.flags.c_contiguous)
    _f_contiguous = property(lambda self: self._host.flags.f_contiguous)

    @property
    def flags(self) -> Flags:
        return Flags(self._host.flags.c_contiguous, self._host.flags.f_contiguous, self.base is None)

    @property
    def __cuda_array_interface__(self) -> dict:
        described = {**self._host.__array_interface__, "version": 3, "stream": 1}
        return {**described, "data": (self.data.ptr, False), "strides": None if self.flags.c_contiguous else self.strides}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0  # CUDA, the first

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        told = "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
        raise TypeError(told)

    def __array_ufunc__(self, ufunc: numpy.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        own = getattr(sys.modules["cupy"], ufunc.__name__, None)
        if method != "__call__" or own is None:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return own(*inputs, **kwargs)

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
        if self.size:
            record("get")
        if out is None:
            return self._host.copy(order)
        out[...] = self._host
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
        record("nonzero")
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
                    record("boolean mask")
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
    found = numpy.array(obj, dtype, order=order or "K", ndmin=ndmin)
    supported(found.dtype)
    return new(found, order=order or "K")


def _arrays(arrays: Any) -> list[numpy.ndarray]:
    """What is behind these arrays; TypeError if one is no array of CuPy's."""
    for one in arrays:
        if not isinstance(one, ndarray):
            raise TypeError(UNSUPPORTED.format(type(one)))
    return [one._host for one in arrays]


# -- kernels -----------------------------------------------------------------------------------------------------------------

_FLOATS = {"e": numpy.float32, "E": numpy.float32}  # half precision is computed in single


def _computed(compute: Callable, arrays: list, kinds: tuple, out_kinds: tuple) -> tuple:
    """Run a function of NumPy's on arrays cast to the loop's types."""
    with quiet():
        hosts = [numpy.asarray(a).astype(_FLOATS.get(numpy.dtype(kind).char, kind)) for a, kind in zip(arrays, kinds, strict=True)]
        found = compute(*hosts)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(numpy.asarray(a).astype(kind) for a, kind in zip(found, out_kinds, strict=True))


class ufunc:
    """A ufunc of CuPy's: its own loops and promotion, NumPy's function of that name."""

    def __init__(self, theirs: Any, compute: Callable | None = None) -> None:
        self._theirs, self._compute = theirs, compute or _function_of(theirs.name)
        self.name = self.__name__ = theirs.name
        self.nin, self.nout, self.types, self._ops, self._doc = theirs.nin, theirs.nout, theirs.types, theirs._ops, theirs._doc

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind", where: Any = None, **more: Any) -> Any:
        if more:
            raise TypeError(f"Wrong arguments {more}")
        if not self.nin <= len(args) <= self.nin + self.nout:
            raise TypeError(f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or {self.nin + self.nout}.")
        outs = args[self.nin :] or (out if isinstance(out, tuple) else (out,) * (out is not None))
        if self._compute is None:
            raise NotImplementedError(f"the stand-in for CuPy has no {self.name}")
        kinds, out_kinds = self._loop(args[: self.nin], dtype)
        inputs = [a._host if isinstance(a, ndarray) else a for a in args[: self.nin]]
        if self.name in INDEXED:
            inputs, kinds = [*inputs, numpy.arange(outs[0].size)], (*kinds, numpy.int64)
        found = _computed(self._compute, inputs, kinds, out_kinds)
        if where is not None:
            raise NotImplementedError("the stand-in for CuPy has no `where` of ufuncs")
        for one, made in zip(outs, found, strict=False):
            if not isinstance(one, ndarray):
                raise TypeError("Output arguments type must be cupy.ndarray")
            if not numpy.can_cast(made.dtype, one.dtype, casting):
                raise TypeError(f"Cannot cast array data from {made.dtype!r} to {one.dtype!r} according to the rule {casting!r}")
            if numpy.broadcast_shapes(made.shape, one.shape) != one.shape:
                raise ValueError("Out shape is mismatched")
        results = tuple(new(made, one) for made, one in zip(found, outs or (None,) * self.nout, strict=True))
        return results[0] if self.nout == 1 else results

    def _loop(self, args: tuple, dtype: Any) -> tuple[tuple, tuple]:
        """The types of the loop that CuPy would choose."""
        kinds, weaks = [], []
        for a in args:
            if not isinstance(a, (ndarray, bool, int, float, complex, numpy.generic)):
                raise TypeError(UNSUPPORTED.format(type(a)))
            kinds.append(a.dtype if hasattr(a, "dtype") else numpy.dtype(type(a)))
            weaks.append(type(a) if type(a) in (int, float, complex) else False)
        if dtype is not None:
            loop = self._ops._guess_routine_from_dtype(numpy.dtype(dtype))
        else:
            loop = _loops(self._ops, tuple(kinds), tuple(weaks))
        if loop is None:
            raise TypeError(f"Wrong type ({dtype or tuple(kinds)}) of arguments for {self.name}")
        return loop.in_types, loop.out_types

    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        if self._theirs._scatter_op is None:
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        a._scatter_op(indices, b, self._theirs._scatter_op)

    def reduce(self, array: ndarray, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        if self.name not in ("cupy_add", "cupy_multiply"):
            raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")
        return (array.sum if self.name == "cupy_add" else array.prod)(axis, dtype, out, keepdims)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        a, b = array(a), array(b)
        return self(a.reshape(a.shape + (1,) * b.ndim), b.reshape((1,) * a.ndim + b.shape), **kwargs)


@functools.cache
def _loops(ops: Any, kinds: tuple, weaks: tuple) -> Any:
    """The first loop that takes these types; Python's numbers count less than arrays unless they are of a higher kind."""

    def rank(kind: Any) -> int:
        ranks = ((numpy.bool_, 0), ((numpy.integer, int), 1), ((numpy.inexact, float, complex), 2))
        return next((rank for kinds, rank in ranks if issubclass(kind, kinds)), 3)

    numbers = [rank(weak) for weak in weaks if weak]
    arrays = [rank(kind.type) for kind, weak in zip(kinds, weaks, strict=True) if not weak]
    weak = bool(numbers and arrays) and max(arrays) >= max(numbers)
    return ops._guess_routine_from_in_types(kinds, weaks if weak else (False,) * len(kinds))


class Reduction:
    """A reduction of CuPy's: its own loops, NumPy's function."""

    def __init__(self, theirs: Any, compute: Callable) -> None:
        self._theirs, self._compute = theirs, compute

    def __call__(self, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        if not isinstance(a, ndarray):
            raise TypeError(UNSUPPORTED.format(type(a)))
        ops = self._theirs._ops
        loop = _loops(ops, (a.dtype,), (False,)) if dtype is None else ops._guess_routine_from_dtype(numpy.dtype(dtype))
        if loop is None:
            raise TypeError(f"Wrong type of arguments for {self._theirs.name}")
        kind = loop.in_types[0] if dtype is None else loop.out_types[0]
        (found,) = _computed(lambda x: self._compute(x, axis=axis, keepdims=keepdims), [a._host], (kind,), loop.out_types)
        return new(found, out)


class Kernel:
    """An `ElementwiseKernel` or `ReductionKernel`; those that something here computes have their function in KERNELS."""

    def __init__(self, *args: Any, name: str = "", **kwargs: Any) -> None:
        self.name = name or next((a for a in args[3:] if isinstance(a, str) and a.startswith("cupy")), "kernel")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.name not in KERNELS:
            raise NotImplementedError(f"the stand-in for CuPy has no kernel {self.name}")
        return KERNELS[self.name](*args, **kwargs)


def _function_of(name: str) -> Callable | None:
    """The function of NumPy or SciPy behind a ufunc of CuPy's, by its name."""
    for prefix in ("cupyx_scipy_special_", "cupyx_scipy_", "cupy_"):
        if name.startswith(prefix):
            short = name.removeprefix(prefix)
            short = {"psi": "digamma", "trunc": "trunc"}.get(short, short)
            homes = (numpy, scipy.special) if prefix == "cupy_" else (scipy.special,)
            return FUNCTIONS.get(short) or next((getattr(home, short) for home in homes if hasattr(home, short)), None)
    return FUNCTIONS.get(name)


def _is_close(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    return numpy.isclose(a, b, rtol.item(), atol.item(), bool(equal_nan))


def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    return numpy.where(numpy.isnan(x), nan, numpy.where(numpy.isposinf(x), posinf, numpy.where(numpy.isneginf(x), neginf, x)))


FUNCTIONS: dict[str, Callable] = {
    "is_close": _is_close,
    "is_close_complex": _is_close,
    "nan_to_num_": _nan_to_num,
    "k0e": scipy.special.k0e,
    "copy": lambda x: x,
    "arange": lambda start, step, i: start + i * step,
    "clip": numpy.clip,
}

INDEXED = {"cupy_arange"}  # ufuncs that also use the place of the element


def _tri(m: int, k: int, out: ndarray) -> ndarray:
    out._host[...] = numpy.tri(*out.shape, k)
    return out


def _count(x: ndarray, out: ndarray) -> None:
    out._host[...] = numpy.bincount(x._host, minlength=out.size)


def _add_weights(x: ndarray, weights: ndarray, out: ndarray) -> None:
    out._host[...] = numpy.bincount(x._host, weights._host, out.size)


def _search(v: ndarray, a: ndarray, n: int, right: bool, increasing: bool, out: ndarray) -> None:
    out._host[...] = numpy.searchsorted(a._host, v._host, "right" if right else "left")


KERNELS: dict[str, Callable] = {
    "cupy_tri": _tri,
    "cupy_bincount_kernel": _count,
    "cupy_bincount_with_weight_kernel": _add_weights,
    "cupy_searchsorted_kernel": _search,
}


# -- the core's functions ----------------------------------------------------------------------------------------------------


def _broadcast_to(array: Any, shape: Any) -> ndarray:
    return view(array, numpy.broadcast_to(array._host, shape))


def _concatenate(tup: Any, axis: int | None = 0, out: Any = None, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    hosts = _arrays(tup)
    return new(numpy.concatenate(hosts, axis, dtype=dtype, casting=casting), out)


def _matmul(a: Any, b: Any, out: Any = None) -> ndarray:
    a, b = _arrays((a, b))
    kind = numpy.result_type(a, b)
    (found,) = _computed(numpy.matmul, [a, b], (kind, kind), (kind,))
    return new(found, out)


def _dot(a: Any, b: Any, out: Any = None) -> ndarray:
    return new(numpy.dot(*_arrays((a, b))), out)


def _copy_into(x: Any, out: ndarray, _where: Any = True) -> ndarray:
    numpy.copyto(out._host, x._host if isinstance(x, ndarray) else x, "unsafe", *_arrays(() if _where is True else (_where,)))
    return out


def _scan(a: ndarray, axis: int | None, op: Any, dtype: Any = None, out: Any = None) -> ndarray:
    return (a.cumsum if op.name == "SCAN_SUM" else a.cumprod)(axis, dtype, out)


def _check_array(array: Any, *, arg_name: str) -> None:
    if not isinstance(array, ndarray):
        raise TypeError(f"{arg_name!r} must be a cupy.ndarray object, not {type(array)}.")


def _divmod(x: Any, y: Any) -> tuple:
    return CORE["floor_divide"](x, y), CORE["remainder"](x, y)


class Broadcast:
    """`cupy.broadcast`: arrays and numbers of one shape."""

    def __init__(self, *arrays: Any) -> None:
        self.shape = numpy.broadcast_shapes(*(a.shape for a in arrays if isinstance(a, ndarray)))
        self.values = [_broadcast_to(a, self.shape) if isinstance(a, ndarray) else a for a in arrays]
        self.nd, self.size = len(self.shape), int(numpy.prod(self.shape))


def _flattened_tensordot(a: Any, b: Any, out: Any, n: int, m: int, k: int, shape: tuple) -> ndarray:
    return new(_matmul(a.reshape(k, n).T, b.reshape(k, m))._host.reshape(shape), out)


_REDUCTIONS = {
    _routines_math: {"sum_auto_dtype": numpy.sum, "_sum_keep_dtype": numpy.sum, "prod_auto_dtype": numpy.prod, "_prod_keep_dtype": numpy.prod},
    _routines_statistics: {"amax": numpy.max, "amin": numpy.min, "nanmax": numpy.nanmax, "nanmin": numpy.nanmin},
    _routines_logic: {"all": numpy.all, "any": numpy.any},
}  # fmt: skip

CORE: dict[str, Any] = {name: ufunc(one) for name, one in vars(real._core).items() if isinstance(one, real.ufunc)}
CORE |= {name: Reduction(getattr(home, name), compute) for home, names in _REDUCTIONS.items() for name, compute in names.items()}
CORE |= {
    "ndarray": ndarray, "_ndarray_base": ndarray, "array": array, "ufunc": ufunc, "broadcast": Broadcast, "broadcast_to": _broadcast_to,
    "concatenate_method": _concatenate, "matmul": _matmul, "dot": _dot, "divmod": _divmod, "elementwise_copy": _copy_into,
    "tensordot_core": _flattened_tensordot, "ElementwiseKernel": Kernel, "ReductionKernel": Kernel, "clip": ufunc(_routines_math.clip),
    "create_ufunc": lambda *args, **kwargs: ufunc(real._core.create_ufunc(*args, **kwargs)),
    "create_comparison": lambda *args, **kwargs: ufunc(_routines_logic.create_comparison(*args, **kwargs)),
    "create_reduction_func": lambda name, *args, **kwargs: Kernel(name=name),
    "ascontiguousarray": lambda a, dtype=None: array(a, dtype, copy=False, order="C"),
    "asfortranarray": lambda a, dtype=None: array(a, dtype, copy=False, order="F"),
    "_internal_ascontiguousarray": lambda a: array(a, copy=False, order="C"),
    "_internal_asfortranarray": lambda a: array(a, copy=False, order="F"),
    "moveaxis": lambda a, source, destination: view(a, numpy.moveaxis(a._host, source, destination)),
    "_move_single_axis": lambda a, source, destination: view(a, numpy.moveaxis(a._host, source, destination)),
    "_expand_dims": lambda a, axis: view(a, numpy.expand_dims(a._host, axis)),
    "scan_core": _scan,
    "get_routine_accelerators": list,
    "rollaxis": lambda a, axis, start=0: view(a, numpy.rollaxis(a._host, axis, start)),
    "size": lambda a, axis=None: numpy.size(a._host, axis),
    "_ufunc_doc_signature_formatter": lambda ufunc, name: name,
    "_is_fusing": lambda: False,
    "fuse": lambda *args, **kwargs: lambda function: function,
    "_convert_object_with_cuda_array_interface": lambda a: a,
}  # fmt: skip


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


# -- the package -------------------------------------------------------------------------------------------------------------


class Core(types.ModuleType):
    """A compiled module of CuPy's core, with its functions replaced."""

    def __init__(self, theirs: types.ModuleType) -> None:
        super().__init__(theirs.__name__)
        self._theirs = theirs
        if hasattr(theirs, "__path__"):
            self.__path__ = theirs.__path__

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._theirs, name)
        if name in CORE:
            return CORE[name]
        if isinstance(found, real.ufunc):
            return ufunc(found)
        if isinstance(found, types.ModuleType) and found.__name__.startswith("cupy._core"):
            return sys.modules[found.__name__]
        if isinstance(found, type) or not callable(found):
            return found
        return _missing(f"{self.__name__}.{name}")


def _missing(name: str) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"the stand-in for CuPy has no {name}")

    return call


# Modules of the core that compute nothing and are kept.
WITHOUT_ARRAYS = {f"cupy._core.{name}" for name in "_dtype _scalar internal flags syncdetect _fusion_thread_local _codeblock".split()}

def _solved(name: str, compute: Callable, a: Any, *rest: Any) -> Any:
    """A factorization after CuPy's checks. What fails raises LinAlgError only where the program has asked for it, and then the host waits."""
    util, config = sys.modules["cupy.linalg._util"], sys.modules["cupyx._ufunc_config"]
    util._assert_cupy_array(a)
    util._assert_stacked_2d(a)
    arrays = [one for one in (a, *rest) if isinstance(one, ndarray)]
    kind, out_kind = util.linalg_common_type(*arrays)
    asks = config.get_config_linalg() == "raise"
    if asks and name not in ("det", "slogdet"):
        record(name)
    given = [one._host.astype(kind) if isinstance(one, ndarray) else one for one in (a, *rest)]
    with quiet():
        try:
            found = compute(*given)
        except numpy.linalg.LinAlgError:
            if asks:
                raise
            found = numpy.full(given[-1 if name == "solve" else 0].shape, numpy.nan, out_kind)
    return tuple(map(new, found)) if isinstance(found, tuple) else new(found)


def _solve_into(a: Any, b: Any) -> None:
    b._host[...] = _solved("solve", numpy.linalg.solve, a, b)._host


def _transformed(theirs: Callable, compute: Callable) -> Callable:
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        signature.bind(a, *args, **kwargs)
        (host,) = _arrays((a,))
        if host.dtype.kind == "V":
            raise TypeError(f"Unsupported dtype {host.dtype}")
        with quiet():
            return new(compute(host, *args, **kwargs))

    return call


def _libraries() -> None:
    """Replace what cuSOLVER, cuBLAS and cuFFT compute."""
    linalg, fft = (importlib.import_module(name) for name in ("cupy.linalg", "cupy.fft"))
    lapack, cublas = (types.ModuleType(name) for name in ("cupyx.lapack", "cupy.cublas"))
    sys.modules |= {"cupyx.lapack": lapack, "cupy.cublas": cublas}
    sys.modules["cupyx"].lapack, sys.modules["cupy"].cublas = lapack, cublas
    whole = ("cholesky", "det", "slogdet", "qr", "svd", "eigh", "eigvalsh")
    for name in whole:
        compute, original = getattr(numpy.linalg, name), getattr(real.linalg, name)

        def call(*args: Any, name: str = name, compute: Callable = compute, signature: Any = inspect.signature(original), **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return _solved(name, compute, *bound.args)

        setattr(linalg, name, functools.wraps(original)(call))
    for module in [module for name, module in sys.modules.items() if name.startswith("cupy.linalg.")]:
        for name in vars(module).keys() & set(whole):
            setattr(module, name, getattr(linalg, name))
    sys.modules["cupy.linalg._solve"]._batched_inv = lambda a: _solved("inv", numpy.linalg.inv, a)
    cublas.batched_gesv, cublas.get_batched_gesv_limit = lambda a, b: _solved("solve", numpy.linalg.solve, a, b), lambda: 2048
    lapack.gesv = _solve_into
    for name in "fft ifft rfft irfft fft2 ifft2 fftn ifftn rfftn irfftn".split():
        setattr(fft, name, _transformed(getattr(real.fft, name), getattr(numpy.fft, name)))


def _anew(package: types.ModuleType) -> types.ModuleType:
    """The package, executed again from its source, on the submodules that are in `sys.modules`."""
    spec = importlib.util.find_spec(package.__name__) or package.__spec__
    made = importlib.util.module_from_spec(spec)
    sys.modules[package.__name__] = made
    for name, module in sys.modules.items():
        parent, _, last = name.rpartition(".")
        if parent == package.__name__:
            setattr(made, last, module)
    spec.loader.exec_module(made)
    return made


def _modules() -> dict[str, types.ModuleType]:
    """CuPy's modules: the Python ones imported anew on top of the replaced core."""
    theirs = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    for name in theirs:
        del sys.modules[name]
    try:
        for name, module in theirs.items():
            if name.startswith("cupy._core") and name not in WITHOUT_ARRAYS:
                sys.modules[name] = Core(module)
            elif name in WITHOUT_ARRAYS or name.startswith("cupy.cuda.") or not getattr(module, "__file__", "").endswith(".py"):
                sys.modules[name] = module
        sys.modules["cupy.cuda"] = host_cuda.Cuda()
        sys.modules["cupy._util"] = types.ModuleType("cupy._util")
        vars(sys.modules["cupy._util"]).update(vars(real._util), check_array=_check_array)
        cupy = _anew(real)
        importlib.import_module("cupyx.scipy.special")
        _libraries()
        importlib.import_module("cupyx").empty_pinned = numpy.empty  # type: ignore[attr-defined]
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx")]:
            del sys.modules[name]
        sys.modules.update(theirs)


@functools.cache
def modules() -> dict[str, types.ModuleType]:
    """What to put into `sys.modules` so that `import cupy` and `import cupyx` find the stand-in."""
    return _modules()
