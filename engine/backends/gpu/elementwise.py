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
from .layouts import ROWS, packed, plan
from .printer import BLOCK, Printed, backward_of, forward_of
from .symbols import Unprintable

ndarray = cupy.ndarray
_MOST_BLOCKS = 1 << 16  # of a strided kernel, whose threads then compute several elements each


_FLOATS = frozenset((F32, numpy.dtype("float64"), *LOW))


def binary(op: Any, x: Any, y: Any) -> Any:
    """`forward` for two arrays of one floating-point dtype, or an array and a number, which need no preparation; else None."""
    xc, yc = x.__class__, y.__class__
    if xc is ndarray:
        dtype = x.dtype
        ready = y.dtype is dtype if yc is ndarray else yc is float or yc is int
    else:
        ready = yc is ndarray and (xc is float or xc is int)
        dtype = y.dtype if ready else None
    return forward(op, (x, y), {}) if ready and dtype in _FLOATS else None


def unary(op: Any, x: Any, attrs: dict[str, Any]) -> Any:
    """`forward` for a floating-point array, which needs no preparation; None for others."""
    return forward(op, (x,), attrs) if x.__class__ is ndarray and x.dtype in _FLOATS else None


def forward(op: Any, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Run an elementwise op on arrays and numbers. Returns None if it has no kernel for them."""
    if op.exact and any(x.__class__ is ndarray and x.dtype in LOW for x in operands):
        return None  # its kernel would compute in float32
    return _run(op, (), operands, attrs, lambda kinds, name: forward_of(op, kinds, attrs, name))


def backward(op: Any, live: tuple[int, ...], grad: Any, saved: Sequence[Any], wanted: Sequence[Any], attrs: dict[str, Any]) -> list | None:
    """Run the derivative rules of the inputs `live`, all in one kernel. Returns None if they have none.

    The gradients have the shape of `grad` and the dtypes `wanted`. A gradient that is equal to `grad` is `grad` itself.
    """
    operands = [grad, *saved, *[None] * (len(op.slots) - len(saved))]
    found = _run(op, (live, *wanted), operands, attrs, lambda kinds, name: backward_of(op, live, kinds, wanted, attrs, f"{name}_back"))
    return found if found is None or found.__class__ is list else [found]


_launchers: dict[tuple, Any] = {}  # (op, what is run, dtypes, types of numbers, other attributes) -> Launcher; None: it has no kernel
_BY_VALUE = object()  # instead of a Launcher: the kernel depends on the values of the numbers, which follow in the key


def _run(op: Any, what: tuple, operands: Sequence[Any], attrs: dict[str, Any], printing: Callable) -> Any:
    arrays, numbers, kinds, key = [], [], [], [op, what]
    for x in operands:
        if x.__class__ is ndarray:
            arrays.append(x)
            kinds.append(x.dtype)
            key.append(x.dtype)
        else:
            x = x.item() if isinstance(x, numpy.generic) else x
            kinds.append(x)
            key.append(_number(x, numbers))
    for value in attrs.values():
        key.append(_number(value, numbers))
    try:
        launcher = _launchers.get(tuple(key), _launchers)
    except TypeError:  # an attribute without a hash, such as a tensor
        return None
    if launcher is _BY_VALUE:
        key.append(tuple(numbers))
        launcher = _launchers.get(tuple(key), _launchers)
    if launcher is _launchers:
        launcher = _launcher(op, key, tuple(numbers), kinds, printing)
    if launcher is None:
        return None
    shape = arrays[0].shape
    if any(x.shape != shape for x in arrays):
        try:
            shape = numpy.broadcast_shapes(*[x.shape for x in arrays])
        except ValueError:
            return None  # CuPy's path explains the error
    try:
        return launcher(arrays, () if launcher.printed.spelled else numbers, shape)
    except CompileError as error:
        _launchers[tuple(key)] = None
        warnings.warn(f"the CUDA kernel of {op.name} does not compile, so the op runs on CuPy: {error}", RuntimeWarning, stacklevel=4)
        return None


def _number(x: Any, numbers: list) -> Any:
    """The part of the key for what is no array: the type of a number that can be a parameter of the kernel, else the value."""
    if x.__class__ is float or x.__class__ is int and -(1 << 63) <= x < 1 << 63:
        numbers.append(x)
        return x.__class__
    return x


def _launcher(op: Any, key: list, numbers: tuple, kinds: list, printing: Callable) -> Launcher | None:
    """Print a kernel and keep it under the key."""
    try:
        printed = printing(kinds, op.name)
    except Unprintable:
        _launchers[tuple(key)] = None
        return None
    except (Refused, NotImplementedError, OverflowError, TypeError, ValueError):
        return None  # what the op refuses; CuPy's path explains it
    if printed.spelled and key[-1] != numbers:
        _launchers[tuple(key)] = _BY_VALUE
        key.append(numbers)
    launcher = _launchers[tuple(key)] = Launcher(printed)
    return launcher


class Launcher:
    """A printed function and its kernels."""

    def __init__(self, printed: Printed) -> None:
        self.printed, self._chunk = printed, BLOCK * printed.vector
        self._vector = self._kernel("vector")
        self._kernel = functools.cache(self._kernel)  # the other forms are rare

    def _kernel(self, form: str) -> Kernel:
        return Kernel(self.printed.text(form), f"{self.printed.name}_{form}")

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any], shape: tuple) -> Any:
        """Compute the results, one or a list, of a shape to which all arrays broadcast; None if the layout has too many dimensions."""
        for x in arrays:
            if not x._c_contiguous or x.shape != shape:
                found = plan(shape, tuple([(y.shape, y.strides, y.dtype.itemsize) for y in arrays]), len(self.printed.writes))
                break
        else:
            found = ROWS
        if found is None:
            return None
        axes, form, layout = found
        outs = [ndarray(shape, d) if axes is None else blank(ndarray, shape, d, axes) for d in self.printed.writes]
        if outs and (n := outs[0].size):
            pointers = [x.data.ptr for x in arrays] + [y.data.ptr for y in outs]
            if form == "vector" and not any(p & 15 for p in pointers):
                self._vector((n + self._chunk - 1) // self._chunk, BLOCK, n, *pointers, *numbers)
            else:
                if form == "vector":
                    form, layout = packed((n,), ((1,),) * len(pointers))
                self._kernel(form)(min((n + BLOCK - 1) // BLOCK, _MOST_BLOCKS), BLOCK, layout, *pointers, *numbers)
        results = [outs[i] if i >= 0 else arrays[~i] for i in self.printed.results]
        return results if len(results) > 1 else results[0]
