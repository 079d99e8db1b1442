"""Arrays with a hidden batch dimension: one array for each sample of a `vmap`.

A `Batched` array looks like one sample: its `shape` is a sample's. Its `inner` array has the batch in the first dimension, or no batch
dimension if all samples are `alike`. `inner` is itself Batched in a vmap within a vmap. The functions of such arrays are in `namespace.py`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from types import ModuleType
from typing import Any

import numpy

_numbers = count(1)
_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try to "
    "rewrite what you're doing with other operations."
)
FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet: use "
    "torch.where, or take the decision outside of vmap."
)
UNWRITTEN = (
    "vmap: the values of a batched tensor cannot be read, or written into a tensor without the batch dimension, inside vmap. An in-place "
    "write is possible only into a tensor that is itself mapped over (x.new_zeros(...) makes one)."
)


class Unbatchable(RuntimeError):
    """Raised by an operation that a whole batch does not support and single samples do, such as reading the value of an element."""


class _Lacking(Unbatchable, AttributeError):
    """The same, for a missing attribute."""


class Level:
    """One running `vmap`: the batch size, and how random functions behave. A level with a higher number is nested deeper."""

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size, self.randomness, self.number = size, randomness, next(_numbers)
        self.xp: Any = _namespace().Namespace(self)

    def __repr__(self) -> str:
        return f"vmap({self.size})"

    def wrap(self, inner: Any, owner: Any = None) -> Batched:
        """Make the first dimension of `inner` this level's batch dimension."""
        return Batched(inner, self, False, owner)

    def same(self, inner: Any) -> Batched:
        """Return an array that is the same for all samples."""
        return Batched(inner, self, True)


class Batched:
    """The arrays of all samples of a level, seen as one sample's."""

    __slots__ = ("inner", "level", "alike", "_owner", "__weakref__")
    __hash__ = object.__hash__

    def __init__(self, inner: Any, level: Level, alike: bool = False, owner: Any = None) -> None:
        self.inner, self.level, self.alike, self._owner = inner, level, alike, owner

    # -- attributes of one sample ------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple:
        return tuple(self.inner.shape if self.alike else self.inner.shape[1:])

    @property
    def ndim(self) -> int:
        return self.inner.ndim if self.alike else self.inner.ndim - 1

    @property
    def size(self) -> int:
        return int(numpy.prod(self.shape, dtype=int))

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    @property
    def itemsize(self) -> int:
        return self.inner.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    @property
    def strides(self) -> tuple:
        """A sample's strides within the inner array."""
        inner = self.inner.strides
        return inner if self.alike else inner[1:]

    @property
    def flags(self) -> Any:
        return _Flags(self)

    @property
    def base(self) -> Any:
        return self._owner

    @property
    def device(self) -> Any:
        return self.inner.device

    def whole(self) -> Any:
        """Return the inner array with the batch in its first dimension, broadcast if all samples are alike."""
        if not self.alike:
            return self.inner
        return space(self.inner).broadcast_to(self.inner, (self.level.size, *self.inner.shape))

    def own(self, array: Any) -> Batched:
        """Return a copy of `array` for each sample, so that samples can write different values."""
        inner = self.inner.own(array) if self.inner.__class__ is Batched else array
        return self.level.wrap(self.level.same(inner).whole().copy())

    def sample(self, i: int) -> Any:
        return self.inner if self.alike else self.inner[i, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator:
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        where = "None" if self.alike else "0"
        return f"BatchedTensor(lvl={self.level.number}, bdim={where}, value=\n{self.inner!r}\n)"

    # -- values, known only if all samples are alike --------------------------------------------------------------------------

    def __bool__(self) -> bool:
        if self.alike:
            return bool(self.inner)
        raise Unbatchable(FLOW)

    def item(self) -> Any:
        if self.alike:
            return self.inner.item()
        raise Unbatchable(_ITEM)

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.alike:
            return operator.index(self.inner)
        raise Unbatchable(FLOW)

    def tolist(self) -> Any:
        if self.alike:
            return self.inner.tolist()
        raise Unbatchable(_ITEM.replace(".item()", ".tolist()"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        if self.alike:
            return numpy.array(self.inner, dtype=dtype) if copy else numpy.asarray(self.inner, dtype=dtype)
        raise Unbatchable(UNWRITTEN)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Called for NumPy's universal functions, and so for `numpy_array + batched`. Unbatchable for their methods and for `out`."""
        if method != "__call__" or kwargs.get("out") is not None:
            raise Unbatchable(UNWRITTEN)
        xp = space(inputs)
        return xp.matmul(*inputs) if ufunc is numpy.matmul else xp.elementwise(ufunc, inputs, kwargs)

    def __getattr__(self, name: str) -> Any:
        raise _Lacking(f"vmap: {name!r} is not supported on a batched array")

    # -- methods that ops use ---------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Any:
        shape = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
        return self.level.xp.reshape(self, tuple(shape))

    def transpose(self, *axes: Any) -> Any:
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return self.level.xp.transpose(self, tuple(axes) if axes else tuple(range(self.ndim))[::-1])

    @property
    def T(self) -> Any:
        return self.transpose()

    def swapaxes(self, a: int, b: int) -> Any:
        return self.level.xp.swapaxes(self, a, b)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        if self.inner.dtype == dtype:
            return self.copy() if copy else self
        return self._with(space(self.inner).astype(self.inner, dtype))

    def copy(self, order: str = "C") -> Any:
        return self._with(self.inner.copy())

    def conj(self) -> Any:
        return self._with(self.inner.conj())

    @property
    def real(self) -> Any:
        return self._with(self.inner.real)

    @property
    def imag(self) -> Any:
        return self._with(self.inner.imag)

    def ravel(self) -> Any:
        return self.reshape(-1)

    def view(self, *dtype: Any) -> Any:
        return self.level.xp.view(self, dtype=dtype[0]) if dtype else self[...]

    def _with(self, inner: Any) -> Batched:
        return Batched(inner, self.level, self.alike)

    # -- elements -----------------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        return space(self, index).getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        top = space(self, index, value)
        if top is not self.level.xp:
            raise Unbatchable(UNWRITTEN)
        if self.alike:
            if top.mapped(index, value):
                if self._owner is not None:
                    raise Unbatchable(UNWRITTEN)
                self.inner, self.alike = self.whole().copy(), False
            else:
                self.inner[plain(index)] = plain(value)
                return
        top.setitem(self, index, value)


class _Flags:
    """The flags of an array's layout that ops read, for the whole batch."""

    def __init__(self, array: Batched) -> None:
        flags = array.inner.flags
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, array.ndim < 2 and flags.c_contiguous
        self.writeable = getattr(flags, "writeable", True)


def _operators() -> None:
    def both(fn: Callable, a: Any, b: Any) -> Any:
        return space(a, b).elementwise(fn, (a, b))

    def left(fn: Callable) -> Callable:
        return lambda self, other: both(fn, self, other)

    def right(fn: Callable) -> Callable:
        return lambda self, other: both(fn, other, self)

    def onto(fn: Callable) -> Callable:
        def write(self: Batched, other: Any) -> Batched:
            self[...] = both(fn, self, other)
            return self

        return write

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
        fn = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        setattr(Batched, f"__{name}__", left(fn))
        setattr(Batched, f"__r{name}__", right(fn))
        setattr(Batched, f"__i{name}__", onto(fn))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Batched, f"__{name}__", left(getattr(operator, name)))
    for name in ("neg", "pos", "abs", "invert"):
        fn = getattr(operator, name)
        setattr(Batched, f"__{name}__", lambda self, fn=fn: self._with(fn(self.inner)))
    Batched.__matmul__ = lambda a, b: space(a, b).matmul(a, b)  # type: ignore[attr-defined]
    Batched.__rmatmul__ = lambda b, a: space(a, b).matmul(a, b)  # type: ignore[attr-defined]


_operators()


# -- which arrays, which namespace -------------------------------------------------------------------------------------


def within(x: Any) -> Iterator:
    """Yield the arrays among arguments, also inside tuples, lists and dicts."""
    if hasattr(x, "dtype"):
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from within(item)
    elif isinstance(x, dict):
        yield from within(tuple(x.values()))


def space(*arguments: Any) -> Any:
    """Return the namespace for computing with these arguments: that of the innermost level among them, else that of their device."""
    found, innermost, backend = None, 0, "cpu"
    for a in within(arguments):
        if a.__class__ is Batched:
            if a.level.number > innermost:
                found, innermost = a.level.xp, a.level.number
        elif a.__class__ is not numpy.ndarray:
            module = type(a).__module__
            own = next((name for name in ("meta", "xla") if module.startswith(f"engine.backends.{name}")), backend)
            backend = "gpu.namespace" if module.startswith("cupy") else own
    if found is None:
        found = import_module(f"engine.backends.{backend}")
    return found.space if backend in ("meta", "xla") and found.__class__ is ModuleType else found


def changed(x: Any, fn: Callable) -> Any:
    """Apply `fn` to each Batched array in nested tuples, lists and dicts."""
    if x.__class__ is Batched:
        return fn(x)
    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return type(x)(changed(v, fn) for v in x)
    if isinstance(x, dict):
        return {k: changed(v, fn) for k, v in x.items()}
    return x


def plain(x: Any) -> Any:
    """Replace Batched arrays, whose samples are all alike, by their inner arrays."""
    return changed(x, lambda b: b.inner)


@functools.cache
def _namespace() -> Any:
    return import_module(f"{__package__}.namespace")
