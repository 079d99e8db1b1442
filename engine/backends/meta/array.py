"""Arrays without memory: the shape, strides and dtype of a tensor on the device "meta".

A `Meta` is a NumPy array over read-only pages, for which the system never allocates memory. Its views, including their strides, are
NumPy's. Functions that compute with elements are dispatched to the rules of `namespace.py`, through NumPy's two protocols or the methods
below, and return arrays without memory; functions that read values raise `NoData`.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy

from ...base.layout import strides_of, told_strides


class NoData(RuntimeError):
    """Raised when the value of an element is read."""


_pages = mmap.mmap(-1, mmap.PAGESIZE)


def _reserved(n: int) -> mmap.mmap:
    """Return at least `n` bytes of address space, shared by all arrays: the system allocates no memory for read-only pages.

    Raises MemoryError if that much address space is not available.
    """
    global _pages
    if n > len(_pages):
        n = 1 << (n - 1).bit_length()
        try:  # Windows has none of these constants, and counts the pages against its limit
            _pages = (
                mmap.mmap(-1, n, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ) if hasattr(mmap, "PROT_READ") else mmap.mmap(-1, n)
            )
        except (OSError, OverflowError, ValueError) as error:
            raise MemoryError(f"no {n} bytes of address space are left: {error}") from None
    return _pages


def blank(shape: Any, dtype: Any = None, strides: tuple | None = None) -> Meta:
    """Return an array without memory, in row-major order unless `strides`, in bytes, are given."""
    d = numpy.dtype(dtype)
    shape = (shape,) if isinstance(shape, (int, numpy.integer)) else tuple(shape)
    steps = [s * d.itemsize for s in strides_of(shape, tuple(range(len(shape))))] if strides is None else strides
    reach = 0 if 0 in shape else sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) + d.itemsize
    return numpy.ndarray.__new__(Meta, shape, d, _reserved(reach), 0, None if 0 in shape else tuple(steps))


def ordered(shape: tuple, dtype: Any, axes: tuple) -> Meta:
    """Return a dense array without memory, with its dimensions in the memory order `axes`, from the outermost to the innermost."""
    d = numpy.dtype(dtype)
    return blank(shape, d, tuple(s * d.itemsize for s in strides_of(shape, axes)))


def axes_among(arrays: list, shape: tuple) -> tuple[int, ...]:
    """Return the memory order of the dimensions of an elementwise result of these operands, by PyTorch's rules."""
    n = len(shape)
    inner = [told_strides(a) for a in arrays]
    if all(a.shape == shape for a in arrays) and all(s == inner[0] for s in inner) and _dense(shape, inner[0]):
        # if all are laid out alike, dimensions of size 1 keep their strides too
        return tuple(sorted(range(n), key=lambda i: (-inner[0][i], -shape[i], i)))
    steps = []
    for a, own in zip(arrays, inner, strict=True):
        lead = n - a.ndim
        kept = [s * a.itemsize if m != 1 or shape[lead + i] == 1 else 0 for i, (m, s) in enumerate(zip(a.shape, own, strict=True))]
        steps.append([0] * lead + kept)
    order = list(range(n))[::-1]  # from the innermost to the outermost
    for i in range(1, n):
        at = i
        for j in range(i - 1, -1, -1):
            found = _compared(order[j], order[at], steps, shape)
            if found > 0:
                order[j], order[at], at = order[at], order[j], j
            elif found < 0:
                break
    return tuple(order[::-1])


def _compared(inner: int, outer: int, steps: list, shape: tuple) -> int:
    """Return 1 if two dimensions should be swapped, -1 if not, as decided by the first operand that distinguishes them; 0 if none does."""
    for s in steps:
        a, b = s[inner], s[outer]
        if a and b and (a != b or shape[inner] > shape[outer]):
            return 1 if a > b or a == b else -1
    return 0


def _dense(shape: tuple, strides: tuple) -> bool:
    step = 1
    for s, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if s != step:
            return False
        step *= n
    return True


class Meta(numpy.ndarray):
    """A NumPy array without memory."""

    __slots__ = ()
    nbytes = 0  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if any(hasattr(x, "shape") and not isinstance(x, (numpy.ndarray, numpy.generic)) for x in inputs):
            return NotImplemented  # left to the array of a vmap
        found = _namespace().universal(ufunc, method, inputs, kwargs)
        if out is None:
            return found
        for given, result in zip(out, found if isinstance(found, tuple) else (found,), strict=True):
            if given is not None and numpy.broadcast_shapes(given.shape, result.shape) != given.shape:
                raise ValueError(
                    f"non-broadcastable output operand with shape {given.shape} doesn't match the broadcast shape {result.shape}"
                )
        return out[0] if len(out) == 1 else out

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _namespace().called(func, args, kwargs)

    # -- elements --------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        if all(i is None or i is Ellipsis or isinstance(i, (int, slice)) and not isinstance(i, bool) for i in items):
            return super().__getitem__(items if Ellipsis in items else (*items, Ellipsis))
        return _namespace().taken(self, items)

    def __setitem__(self, index: Any, value: Any) -> None:
        place, came = self[index].shape, numpy.shape(value)
        while len(came) > len(place) and came[0] == 1:
            came = came[1:]
        if numpy.broadcast_shapes(place, came) != place:
            raise ValueError(f"could not broadcast input array from shape {came} into shape {place}")

    def __iter__(self) -> Iterator:
        return (self[i] for i in range(len(self)))

    # -- methods ---------------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        shape = shape[0] if len(shape) == 1 else shape
        try:
            return super().reshape(shape, copy=False)
        except ValueError:
            if copy is False:
                raise
            row = numpy.lib.stride_tricks.as_strided(numpy.zeros(1, bool), (self.size,), (0,))
            return blank(row.reshape(shape).shape, self.dtype)

    def ravel(self, order: Any = "C") -> Any:
        return self.reshape(-1)

    def flatten(self, order: Any = "C") -> Any:
        return blank((self.size,), self.dtype)

    def copy(self, order: Any = "C") -> Meta:
        return blank(self.shape, self.dtype) if order == "C" else self._alike(self.dtype)

    def astype(self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        return self if self.dtype == dtype and not copy else self._alike(dtype)

    def _alike(self, dtype: Any) -> Meta:
        return ordered(self.shape, dtype, axes_among([self], self.shape))

    def conj(self) -> Any:
        return self if self.dtype.kind != "c" else self._alike(self.dtype)

    conjugate = conj

    def fill(self, value: Any) -> None:
        pass

    def dot(self, other: Any, out: Any = None) -> Any:
        return _namespace().dot(self, other)

    def __deepcopy__(self, memo: dict) -> Meta:
        return self.copy("K")

    def __reduce_ex__(self, protocol: Any) -> Any:
        return blank, (self.shape, self.dtype, self.strides)

    def __repr__(self) -> str:
        return f"Meta(shape={self.shape}, dtype={self.dtype}, strides={self.strides})"

    __str__ = __repr__


def _refusing(name: str) -> Callable:
    def call(self: Meta, *args: Any) -> Any:
        raise NoData("Tensor.item() cannot be called on meta tensors")

    call.__name__ = call.__qualname__ = name
    return call


def _ruled(name: str) -> Callable:
    def call(self: Meta, *args: Any, **kwargs: Any) -> Any:
        return _namespace().called(getattr(numpy, name), (self, *args), kwargs)

    call.__name__ = call.__qualname__ = name
    return call


for _name in ("__bool__", "__int__", "__float__", "__complex__", "__index__", "item", "tolist", "tobytes", "tofile", "dump", "dumps"):
    setattr(Meta, _name, _refusing(_name))
for _name in (
    "all", "any", "argmax", "argmin", "argsort", "choose", "clip", "compress", "cumprod", "cumsum", "max", "mean", "min", "nonzero",
    "partition", "prod", "repeat", "round", "searchsorted", "std", "sum", "take", "trace", "var",
):  # fmt: skip
    setattr(Meta, _name, _ruled(_name))


def _namespace() -> Any:
    return import_module(f"{__package__}.namespace")
