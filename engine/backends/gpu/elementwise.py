"""Elementwise ops on CuPy arrays, by printed kernels. A kernel is printed and compiled when its op first meets operands of these dtypes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy

from ...base.dtypes import F32, LOW
from ...base.errors import Refused
from ...base.layout import blank
from .launch import CompileError, Kernel
from .layouts import packed, plan
from .printer import BLOCK, Printed, backward_of, forward_of
from .symbols import Unprintable

ndarray = cupy.ndarray
_FLOATS = frozenset((F32, numpy.dtype("float64"), *LOW))
_NUMBERS = frozenset((int, float))  # those that can be parameters of a kernel
_MOST_BLOCKS = 1 << 16  # of a strided kernel, whose threads then compute several elements each


def binary(op: Any, x: Any, y: Any) -> Any:
    """`forward` for two arrays of one floating-point dtype, or an array and a number, which need no preparation; else None."""
    if x.__class__ is ndarray:
        dtype = x.dtype
        if y.__class__ is ndarray:
            if y.dtype is not dtype or dtype not in _FLOATS:
                return None
            launcher = _launchers.get((op, None, dtype, dtype))
            return launcher((), x, y) if launcher is not None else forward(op, (x, y), {})
        ready = y.__class__ in _NUMBERS
    else:
        ready = y.__class__ is ndarray and x.__class__ in _NUMBERS
        dtype = y.dtype if ready else None
    return forward(op, (x, y), {}) if ready and dtype in _FLOATS else None


def unary(op: Any, x: Any, attrs: dict[str, Any]) -> Any:
    """`forward` for a floating-point array, which needs no preparation; None for others."""
    if x.__class__ is not ndarray or x.dtype not in _FLOATS:
        return None
    launcher = _launchers.get((op, None, x.dtype)) if not attrs else None
    return launcher((), x) if launcher is not None else forward(op, (x,), attrs)


def forward(op: Any, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Run an elementwise op on arrays and numbers. Returns None if it has no kernel for them."""
    if op.exact and any(x.__class__ is ndarray and x.dtype in LOW for x in operands):
        return None  # its kernel would compute in float32
    return _run(op, None, operands, attrs, lambda kinds: forward_of(op, kinds, attrs, op.name))


def write(op: Any, out: Any, operands: Sequence[Any], attrs: dict[str, Any]) -> bool:
    """Run an elementwise op into `out`, row-major and one of its operands. Returns False, and writes nothing, unless a kernel can.

    All arrays have the dtype of `out`, and none but `out` shares its memory.
    """
    if out.dtype not in _FLOATS or not out._c_contiguous or op.exact and out.dtype in LOW:
        return False
    if any(x.dtype is not out.dtype if x.__class__ is ndarray else x.__class__ not in _NUMBERS for x in operands):
        return False
    return _run(op, None, operands, attrs, lambda kinds: forward_of(op, kinds, attrs, op.name), out) is not None


def backward(op: Any, live: tuple[int, ...], grad: Any, saved: Sequence[Any], wanted: tuple, attrs: dict[str, Any]) -> Any:
    """Run the derivative rules of the inputs `live`, all in one kernel. Returns their gradients, or None if they have no kernel.

    The gradients have the shape of `grad` and the dtypes `wanted`. One that is equal to `grad` is `grad` itself.
    """
    operands = [grad, *saved, *[None] * (len(op.slots) - len(saved))]
    found = _run(op, (live, wanted), operands, attrs, lambda kinds: backward_of(op, live, kinds, wanted, attrs, f"{op.name}_back"))
    return found if found is None or len(live) > 1 else (found,)


# (op, what is run, dtypes, types of numbers, other attributes) -> the kernels, called with the numbers and the arrays
_launchers: dict[tuple, Callable] = {}


def _on_cupy(numbers: Sequence[Any], *arrays: Any, out: Any = None) -> None:
    """Instead of a launcher: there is no kernel."""


def _by_value(numbers: Sequence[Any], *arrays: Any, out: Any = None) -> None:
    """Instead of a launcher: the kernel depends on the numbers' values, which follow in the key."""


def _run(op: Any, what: Any, operands: Sequence[Any], attrs: dict[str, Any], printing: Callable, out: Any = None) -> Any:
    arrays, numbers, kinds, key = [], [], [], [op, what]
    for x in operands:
        if x.__class__ is ndarray:
            arrays.append(x)
            kinds.append(x.dtype)
            key.append(x.dtype)
        else:
            kinds.append(x)
            key.append((x.dtype, _part(x.item(), numbers)) if isinstance(x, numpy.generic) else _part(x, numbers))
    for value in attrs.values():
        key.append(_part(value, numbers))
    key = tuple(key)
    try:
        launcher = _launchers.get(key)
    except TypeError:  # an attribute without a hash, such as a tensor
        return None
    if launcher is _by_value:
        key = (*key, *numbers)
        launcher = _launchers.get(key)
    if launcher is None:
        try:
            printed = printing(kinds)
        except Unprintable:
            _launchers[key] = _on_cupy
            return None
        except (Refused, NotImplementedError, OverflowError, TypeError, ValueError):
            return None  # what the op refuses; CuPy's path explains it
        if printed.spelled and _launchers.setdefault(key[: 2 + len(operands) + len(attrs)], _by_value) is _by_value:
            key = (*key[: 2 + len(operands) + len(attrs)], *numbers)
        launcher = _launchers[key] = Launcher(printed)
    return launcher(numbers, *arrays, out=out)


def _part(x: Any, numbers: list) -> Any:
    """The part of the key for what is no array: the type of a number that can be a parameter, else the value."""
    if x.__class__ is float or x.__class__ is int and -(1 << 63) <= x < 1 << 63:
        numbers.append(x)
        return x.__class__
    return x


class Launcher:
    """A printed function and its kernels."""

    def __init__(self, printed: Printed) -> None:
        self.printed, self._writes, self._results = printed, printed.writes, printed.results
        self._chunk, self._one = BLOCK * printed.vector, printed.writes[0] if printed.results == [0] else None
        self._kernel = functools.cache(lambda form: Kernel(printed.text(form), f"{printed.name}_{form}"))
        self._vector = self._kernel("vector")

    def __call__(self, numbers: Sequence[Any], *arrays: Any, out: Any = None) -> Any:
        """Compute the results, one or a list, into `out` if that is given: row-major, and the one result's.

        Returns None for shapes that do not broadcast, for layouts with too many dimensions, and for an `out` that is not the result's.
        """
        if self.printed.spelled:
            numbers = ()
        shape, pointers, bits = arrays[0].shape, [], 0
        for x in arrays:
            if not x._c_contiguous or x.shape != shape:
                return self._in_layouts(numbers, arrays, out)
            pointer = x.data.ptr
            bits |= pointer
            pointers.append(pointer)
        if out is not None:
            return self._launched("vector", b"", numbers, arrays, [out]) if self._writes_to(out, shape) else None
        if self._one is None:
            outs = [ndarray(shape, dtype) for dtype in self._writes]
            return self._launched("vector", b"", numbers, arrays, outs)
        out = ndarray(shape, self._one)
        n, pointer = out.size, out.data.ptr
        if not n or (bits | pointer) & 15:
            return self._launched("vector", b"", numbers, arrays, [out])
        try:
            self._vector((n + self._chunk - 1) // self._chunk, BLOCK, n, *pointers, pointer, *numbers)
        except CompileError as error:
            return self._failed(error)
        return out

    def _writes_to(self, out: Any, shape: tuple) -> bool:
        return self._one == out.dtype and out.shape == shape

    def _in_layouts(self, numbers: Sequence[Any], arrays: Sequence[Any], out: Any) -> Any:
        found = plan(tuple([(x.shape, x.strides, x.dtype) for x in arrays]), len(self._writes))
        if found is None:
            return None  # CuPy's path computes it, or explains the error
        shape, axes, form, layout = found
        if out is not None:
            return self._launched(form, layout, numbers, arrays, [out]) if axes is None and self._writes_to(out, shape) else None
        outs = [ndarray(shape, d) if axes is None else blank(ndarray, shape, d, axes) for d in self._writes]
        return self._launched(form, layout, numbers, arrays, outs)

    def _launched(self, form: str, layout: bytes, numbers: Sequence[Any], arrays: Sequence[Any], outs: list) -> Any:
        """Launch a form of the kernel, unless there is nothing to compute."""
        if outs and (n := outs[0].size):
            pointers = [x.data.ptr for x in arrays] + [y.data.ptr for y in outs]
            if form == "vector" and any(p & 15 for p in pointers):  # such as a slice that begins inside of 16 bytes
                wide, layout = packed((n,), ((1,),) * len(pointers))
                form = "far" if wide else "strided"
            try:
                if form == "vector":
                    self._vector((n + self._chunk - 1) // self._chunk, BLOCK, n, *pointers, *numbers)
                else:
                    self._kernel(form)(min((n + BLOCK - 1) // BLOCK, _MOST_BLOCKS), BLOCK, layout, *pointers, *numbers)
            except CompileError as error:
                return self._failed(error)
        results = [outs[i] if i >= 0 else arrays[~i] for i in self._results]
        return results if len(results) > 1 else results[0]

    def _failed(self, error: CompileError) -> None:
        """Run on CuPy from now on."""
        _launchers.update({key: _on_cupy for key, launcher in _launchers.items() if launcher is self})
        warnings.warn(f"the op runs on CuPy, as its CUDA kernel {self.printed.name} does not compile: {error}", stacklevel=2)
