"""Traced arrays: the arrays of a step that is being traced for XLA.

A `Traced` is a box around a JAX value. It acts like memory: a write puts a new value into the box, and a view reads and writes through its
parent. Shape, strides and flags are those of `layout`, a NumPy array of one element whose strides pretend to be those of the whole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax.core import Tracer
from numpy.lib.stride_tricks import as_strided

from ...base.errors import at_user_line
from ...base.layout import strides_of


class TraceError(Exception):
    """Raised for what is impossible while a step is traced, such as reading the value of an element."""


def unknown(what: str, instead: str = "") -> TraceError:
    """The error for code that needs the value of an element; `instead` says what to write."""
    told = f"; {instead}" if instead else ""
    return TraceError(f"compile: {what} needs the value of a tensor, which is known only when the compiled step runs{at_user_line()}{told}")


def blank(shape: tuple, dtype: Any) -> numpy.ndarray:
    """Return an array of one element with the shape and strides of an array in row-major order; its elements are never read."""
    d = numpy.dtype(dtype)
    return as_strided(numpy.empty(1, d), shape, [s * d.itemsize for s in strides_of(shape, tuple(range(len(shape))))])


class Traced:
    """An array of a step that is being traced."""

    __slots__ = ("_value", "_parent", "_get", "_put", "_whole", "layout", "__weakref__")
    __hash__ = object.__hash__
    __array_priority__ = 2000

    def __init__(
        self, value: Any, parent: Traced | None = None, get: Callable | None = None, put: Callable | None = None, layout: Any = None
    ) -> None:
        self._value, self._parent, self._get, self._put, self._whole = value, parent, get, put, None
        self.layout: Any = blank(value.shape, value.dtype) if layout is None else layout

    @property
    def value(self) -> Any:
        """The JAX value: of a view, read from the current value of its parent."""
        if self._parent is not None:
            whole = self._parent.value
            if whole is not self._whole:
                self._value, self._whole = self._get(whole), whole  # type: ignore[misc]
        return self._value

    @value.setter
    def value(self, new: Any) -> None:
        if self._parent is None:
            self._value = new
        elif self._put is None:
            raise TraceError(f"compile: a write into a broadcast view has no form for XLA{at_user_line()}")
        else:
            self._parent.value = self._put(self._parent.value, new)

    def set_root(self, value: Any) -> None:
        """Make this an array of its own with a new value, for a second trace."""
        self._value, self._parent, self._get, self._put = value, None, None, None

    # -- what NumPy keeps ------------------------------------------------------------------------------------------------------

    shape = property(lambda self: self.layout.shape)
    ndim = property(lambda self: self.layout.ndim)
    size = property(lambda self: self.layout.size)
    dtype = property(lambda self: self.layout.dtype)
    strides = property(lambda self: self.layout.strides)
    flags = property(lambda self: self.layout.flags)
    itemsize = property(lambda self: self.layout.itemsize)
    nbytes = property(lambda self: self.layout.nbytes)

    @property
    def base(self) -> Traced | None:
        """The array that owns the memory, or None if this one does."""
        owner = self._parent
        while owner is not None and owner._parent is not None:
            owner = owner._parent
        return owner

    def __len__(self) -> int:
        return len(self.layout)

    def __iter__(self) -> Iterator:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Traced(shape={self.shape}, dtype={self.dtype})"

    # -- values are not known --------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        raise unknown("a decision (if, while, and, or, assert)", "use where(), or decide outside of the compiled step")

    def item(self) -> Any:
        raise unknown(".item()", "return the tensor, and read it outside")

    def tolist(self) -> Any:
        raise unknown(".tolist()", "return the tensor, and read it outside")

    def __int__(self) -> int:
        raise unknown("int()")

    def __float__(self) -> float:
        raise unknown("float()", "return the tensor, and read it outside")

    def __complex__(self) -> complex:
        raise unknown("complex()")

    def __index__(self) -> int:
        raise unknown("an index or a size", "use a tensor as the index, or a Python number")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise unknown("NumPy", "return the tensor, and read it outside")

    def __deepcopy__(self, memo: dict) -> Traced:
        return self.copy()

    # -- NumPy's functions, called by the texts of the CPU's kernels --------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        name = ufunc.__name__
        if method == "reduce":
            array, axis = inputs[0], inputs[1] if len(inputs) > 1 else kwargs.pop("axis", 0)
            inputs, kwargs = (array, axis), {k: v for k, v in kwargs.items() if v is not None}
        names = {"__call__": {name: name}, "reduce": REDUCE, "accumulate": _ACCUMULATE}.get(method, {})
        if name not in names:
            raise TraceError(f"compile: numpy.{name}.{method} has no form for XLA{at_user_line()}")
        fn, kwargs = _functions().numpys(names[name]), {k: v for k, v in kwargs.items() if k != "casting"}
        if (dtype := kwargs.pop("dtype", None)) is not None:
            inputs = tuple(x.astype(dtype) if isinstance(x, Traced) else x for x in inputs)
        return into(out[0] if out else None, fn(*inputs, **kwargs))

    def __array_function__(self, fn: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return into(kwargs.pop("out", None), _functions().numpys(fn.__name__)(*args, **kwargs))

    def accumulate(self, how: str, index: Any, value: Any) -> None:
        """Combine values with the elements at an index: "add", "multiply", "max" or "min"."""
        self.value = written(self.value, raw(index), raw(value), how)

    # -- views -----------------------------------------------------------------------------------------------------------------

    def _view(self, get: Callable, put: Callable | None, layout: Any) -> Traced:
        return Traced(None, self, get, put, layout)

    def __getitem__(self, index: Any) -> Any:
        plain = raw(index)
        if not basic(index):
            try:
                return wrap(self.value.at[_places(plain)].get(mode="fill"))
            except jax.errors.NonConcreteBooleanIndexError:
                raise unknown("x[mask], which has as many elements as the mask has True,", "use where()") from None
        layout = self.layout[plain]
        if not isinstance(layout, numpy.ndarray):
            layout = self.layout[(*plain, ...) if isinstance(plain, tuple) else (plain, ...)]
        return self._view(lambda whole: whole[plain], lambda whole, part: whole.at[plain].set(part), layout)

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is Ellipsis or index == () or isinstance(index, slice) and index == slice(None):
            new = cast(jnp.asarray(raw(value)), self.dtype)
            lead = new.ndim - self.ndim
            self.value = jnp.broadcast_to(new.reshape(new.shape[lead:]) if lead > 0 else new, self.shape)
        else:
            self.value = written(self.value, raw(index), raw(value))

    def fill(self, value: Any) -> None:
        self[...] = value

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Traced:
        shape = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
        old = self.shape
        try:
            layout = self.layout.reshape(shape, copy=False)
        except ValueError:
            if copy is False:
                raise
            shape = as_strided(numpy.zeros(1, bool), (self.size,), (0,)).reshape(shape).shape  # raises for a wrong size
            return wrap(self.value.reshape(shape))  # NumPy copies too
        new = layout.shape
        return self._view(lambda whole: whole.reshape(new), lambda whole, part: part.reshape(old), layout)

    def transpose(self, *axes: Any) -> Traced:
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        axes = tuple(a % self.ndim for a in axes) if axes else tuple(range(self.ndim))[::-1]
        back = tuple(int(i) for i in numpy.argsort(axes))
        return self._view(lambda v: v.transpose(axes), lambda v, part: part.transpose(back), self.layout.transpose(axes))

    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))

    def swapaxes(self, a: int, b: int) -> Traced:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(tuple(order))

    def squeeze(self, axis: Any = None) -> Traced:
        return _space().squeeze(self, axis)

    def broadcast_to(self, shape: tuple) -> Traced:
        return self._view(lambda v: jnp.broadcast_to(v, shape), None, numpy.broadcast_to(self.layout, shape))

    def ravel(self, order: str = "C") -> Traced:
        return self.reshape(-1)

    def view(self, dtype: Any = None) -> Traced:
        if dtype is None or numpy.dtype(dtype) == self.dtype:
            return self[...]
        new, old = numpy.dtype(dtype), self.dtype
        return self._view(lambda v: reinterpreted(v, new), lambda v, part: reinterpreted(part, old), self.layout.view(new))

    # -- copies ----------------------------------------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> Traced:
        return wrap(self.value)

    __copy__ = copy

    def flatten(self, order: str = "C") -> Traced:
        return wrap(self.value.reshape(-1))

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Traced:
        dtype = numpy.dtype(getattr(dtype, "numpy", dtype))
        return self if not copy and self.dtype == dtype else wrap(cast(self.value, dtype))

    def conj(self) -> Traced:
        return self if self.dtype.kind != "c" else wrap(self.value.conj())

    conjugate = conj

    @property
    def real(self) -> Traced:
        if self.dtype.kind != "c":
            return self
        return self._view(jnp.real, lambda v, part: jax.lax.complex(part, v.imag), self.layout.real)  # pyright: ignore[reportAttributeAccessIssue]

    @real.setter
    def real(self, new: Any) -> None:
        self.real[...] = new

    @property
    def imag(self) -> Traced:
        return self._view(jnp.imag, lambda v, part: jax.lax.complex(v.real, part), self.layout.imag)  # pyright: ignore[reportAttributeAccessIssue]

    @imag.setter
    def imag(self, new: Any) -> None:
        self.imag[...] = new


def cast(value: Any, dtype: Any) -> Any:
    """Convert a JAX value to a dtype as NumPy does: complex to real drops the imaginary part, and anything but 0 is True."""
    if value.dtype.kind == "c" and dtype.kind not in "cb":
        value = value.real
    return value != 0 if dtype.kind == "b" else value.astype(dtype)


def _places(index: Any) -> tuple:
    """Return an index in which the masks that are known are the places where they are True."""
    found: list[Any] = []
    for i in index if isinstance(index, tuple) else (index,):
        found += numpy.nonzero(i) if isinstance(i, numpy.ndarray) and i.dtype == bool and i.ndim else [i]
    return tuple(found)


def reinterpreted(value: Any, dtype: Any) -> Any:
    """Return the memory of a JAX value as another dtype, whose elements in the last dimension may be fewer or more."""
    if value.dtype.kind == "c":
        value = jnp.stack([value.real, value.imag], -1).reshape(*value.shape[:-1], -1)
    if dtype.kind == "c":
        parts = reinterpreted(value, numpy.empty(0, dtype).real.dtype)
        return jax.lax.complex(parts[..., 0::2], parts[..., 1::2])
    value = value.astype(numpy.uint8) if value.dtype == bool else value
    plain, old = numpy.dtype(numpy.uint8) if dtype.kind == "b" else dtype, value.dtype
    if plain.itemsize > old.itemsize:
        value = value.reshape(*value.shape[:-1], -1, plain.itemsize // old.itemsize)
    value = jax.lax.bitcast_convert_type(value, plain)
    value = value.reshape(*value.shape[:-2], -1) if plain.itemsize < old.itemsize else value
    return value.astype(dtype)


def written(x: Any, index: Any, value: Any, how: str = "set") -> Any:
    """Return a JAX value with another written at an index ("set"), or combined with the elements there ("add", "multiply", "max", "min").

    Where a traced mask selects, the new value must be the same for all elements that it selects: their number is not known.
    """
    items = index if isinstance(index, tuple) else (index,)
    new = cast(jnp.asarray(value), x.dtype)
    if not any(isinstance(i, Tracer) and i.dtype == bool for i in items):
        return getattr(jnp.asarray(x).at[index], how)(new)
    mask, lead = items[0], new.ndim - (x.ndim - items[0].ndim)
    if len(items) > 1 or any(n != 1 for n in new.shape[: max(lead, 0)]):
        raise unknown("x[mask] = values, one for each True of the mask,", "use where(), or masked_fill()")
    new = new.reshape(new.shape[max(lead, 0) :])
    return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), new if how == "set" else _COMBINE[how](x, new), x)


_COMBINE = {"add": jnp.add, "multiply": jnp.multiply, "max": jnp.maximum, "min": jnp.minimum}


def basic(index: Any) -> bool:
    """Whether an index makes a view: it contains only integers, slices, None and Ellipsis."""
    return all(
        i is None
        or i is Ellipsis
        or isinstance(i, slice)
        or hasattr(i, "__index__")
        and not isinstance(i, (Traced, numpy.ndarray, bool, numpy.bool_))
        for i in (index if isinstance(index, tuple) else (index,))
    )


def raw(x: Any) -> Any:
    """Replace traced arrays by their JAX values, also in tuples, lists and slices."""
    if x.__class__ is Traced:
        return x.value
    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return type(x)(map(raw, x))
    return x


def wrap(x: Any) -> Any:
    """Put JAX values into traced arrays, also in tuples and lists."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(wrap, x)) if not hasattr(x, "_fields") else tuple(map(wrap, x))
    return Traced(x) if isinstance(x, jax.Array) else x


def _functions() -> Any:
    return import_module(f"{__package__}.namespace")


def _space() -> Any:
    return _functions().space


def into(out: Any, result: Any) -> Any:
    """Return a result, written into `out` if there is one."""
    if out is None:
        return result
    if out.__class__ is not Traced:
        raise TraceError(f"compile: a traced value would be written into an array from outside of the compiled step{at_user_line()}")
    out[...] = result
    return out


REDUCE = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}
_ACCUMULATE = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin", "logaddexp": "logcumsumexp"}


def _met(other: Any) -> bool:
    return other.__class__ is Traced or isinstance(other, (numpy.ndarray, numpy.generic, int, float, complex, jax.Array))


def _define_operators() -> None:
    def binary(name: str) -> None:
        fn = getattr(operator, f"{name}_" if name in ("and", "or") else name)

        def onto(a: Traced, b: Any) -> Traced:
            a[...] = fn(a.value, raw(b))
            return a

        setattr(Traced, f"__{name}__", lambda a, b: wrap(fn(a.value, raw(b))) if _met(b) else NotImplemented)
        setattr(
            Traced,
            f"__r{name}__",
            lambda a, b: wrap(fn(jnp.asarray(b) if isinstance(b, numpy.ndarray) else b, a.value)) if _met(b) else NotImplemented,
        )
        setattr(Traced, f"__i{name}__", onto)

    def compared(name: str) -> None:
        fn = getattr(operator, name)
        setattr(Traced, f"__{name}__", lambda a, b: wrap(fn(a.value, raw(b))) if _met(b) else NotImplemented)

    def unary(name: str) -> None:
        fn = getattr(operator, name)
        setattr(Traced, f"__{name}__", lambda a: wrap(fn(a.value)))

    def method(name: str) -> None:
        def call(self: Traced, *args: Any, **kwargs: Any) -> Any:
            return getattr(_space(), name)(self, *args, **kwargs)

        call.__name__ = call.__qualname__ = name
        setattr(Traced, name, call)

    def reduction(name: str, *between: str) -> None:
        def call(self: Traced, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip((*between, "keepdims"), args, strict=False)), **kwargs}
            return getattr(_space(), name)(self, axis=axis, **{k: v for k, v in given.items() if v is not None})

        call.__name__ = call.__qualname__ = name
        setattr(Traced, name, call)

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul"):
        binary(name)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        compared(name)
    for name in ("neg", "pos", "abs", "invert"):
        unary(name)
    for name in ("sum", "mean", "prod"):
        reduction(name, "dtype", "out")
    for name in ("max", "min", "any", "all", "argmax", "argmin"):
        reduction(name, "out")
    for name in ("argsort", "clip", "cumsum", "cumprod", "take", "repeat", "dot", "round", "trace", "diagonal", "nonzero", "searchsorted"):
        method(name)
    for name in ("var", "std"):
        method(name)


_define_operators()
