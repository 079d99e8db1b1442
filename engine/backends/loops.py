"""NumPy's own loops over large arrays, shared between OpenMP's threads: the results are NumPy's, to the bit.

A ufunc is called as `over(numpy.add, x, y)`; the loop for the arrays' dtype is taken out of it and called in parts. There are threads if
the compiled kernels and oneDNN are there; otherwise, and for arrays that are small or not laid out in rows, `over` returns None, and the
caller asks NumPy.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, NamedTuple

import numpy

from . import fused, threads

LARGE = 1 << 18  # elements; for fewer, NumPy is as fast
_PIECE = 1 << 14  # elements of a call, where nothing is broadcast along rows
_SHORT = 64  # elements; a call for a shorter row would not pay
_DTYPES = tuple(map(numpy.dtype, ("float32", "float64", "int32", "int64")))
_WORDS = {4: numpy.dtype("int32"), 8: numpy.dtype("int64")}


class _Ufunc(ctypes.Structure):
    """The beginning of NumPy's PyUFuncObject."""

    _fields_ = (
        ("refcount", ctypes.c_ssize_t), ("type", ctypes.c_void_p), ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int), ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p), ("types", ctypes.POINTER(ctypes.c_char)),
    )  # fmt: skip


class _Loop(NamedTuple):
    function: int  # its address, and that of the data that it is called with
    data: int
    out: numpy.dtype


@functools.cache
def _loop(ufunc: numpy.ufunc, dtype: numpy.dtype) -> _Loop | None:
    """The elementwise loop for inputs of this dtype; None if there is none, or if this NumPy's ufuncs are laid out otherwise."""
    layout, wanted = _Ufunc.from_address(id(ufunc)), dtype.char * ufunc.nin
    if ufunc.signature or (layout.nin, layout.nout, layout.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        return None
    for i, types in enumerate(ufunc.types):
        if types[: ufunc.nin] == wanted and (function := layout.functions[i]):
            return _Loop(function, (layout.data[i] or 0) if layout.data else 0, numpy.dtype(types[-1]))
    return None


def over(ufunc: numpy.ufunc, *operands: Any, out: Any = None) -> Any:
    """`ufunc(*operands)`, computed by several threads, or None where that does not pay or they cannot.

    One operand at least is a large array of float32 or float64 in row-major order. The others are like it, or are broadcast to it along
    their first or their last dimensions, or are Python numbers. The result is a new array, or `out`, which may be one of the operands.
    """
    whole = next((a for a in operands if a.__class__ is numpy.ndarray and a.size >= LARGE and a.flags.c_contiguous), None)
    if whole is None or whole.dtype not in _DTYPES or (parts := threads.count()) < 2:
        return None
    shape, dtype, width = whole.shape, whole.dtype, 0
    places, spread = [], []  # how each operand lies beside `whole`; None if it has its shape
    for a in operands:
        if a.__class__ is float or a.__class__ is int:
            a = numpy.array(a, dtype)
        elif a.__class__ is not numpy.ndarray or a.dtype is not dtype or not a.flags.aligned:
            return None
        places.append(a)
        if a.shape == shape and a.flags.c_contiguous:
            spread.append(None)
            continue
        if (found := _spread(a, shape)) is None or found[0] and width and found[0] != width:
            return None
        width = found[0] or width
        spread.append(found[1:])
    if (loop := _loop(ufunc, dtype)) is None or (module := fused.module()) is None or not module.team.can_share():
        return None
    if out is None:
        out = numpy.empty(shape, loop.out)
    elif out.shape != shape or out.dtype is not loop.out or not out.flags.carray:
        return None
    places.append(out)
    spread.append(None)
    width, size = width or _PIECE, whole.size
    spread = [(width * a.itemsize, a.itemsize) if s is None else s for a, s in zip(places, spread, strict=True)]
    lines, steps = zip(*spread, strict=True)
    addresses = [a.__array_interface__["data"][0] for a in places]
    module.team.loop_over_rows(parts, -(-size // width), width, size, loop[:2], addresses, lines, steps)
    return out


def add_to(x: Any, y: Any) -> None:
    """`x += y`."""
    if x.__class__ is not numpy.ndarray or x.size < LARGE or over(numpy.add, x, y, out=x) is None:
        x += y


def copied(x: Any, out: Any = None) -> Any:
    """A copy in row-major order, in `out` if given; None as for `over`."""
    if x.__class__ is not numpy.ndarray or x.size < LARGE or (words := _WORDS.get(x.itemsize)) is None or x.dtype.kind not in "fiub":
        return None
    found = over(numpy.positive, x.view(words), out=None if out is None else out.view(words))
    return None if found is None else found.view(x.dtype)


def _spread(a: numpy.ndarray, shape: tuple) -> tuple[int, int, int] | None:
    """How an array is broadcast to a shape: the elements of a row, and the bytes from row to row and from element to element.

    The first is 0 where it does not matter. Returns None if the array changes along dimensions in between, or if rows are short.
    """
    if a.ndim > len(shape):
        return None
    strides = [0] * (len(shape) - a.ndim)
    for n, m, stride in zip(a.shape, shape[len(strides) :], a.strides, strict=True):
        if n != m and n != 1:
            return None
        strides.append(0 if n == 1 else stride)
    moving = [i for i, stride in enumerate(strides) if stride]
    if not moving:
        return 0, 0, 0
    first, last, step = moving[0], moving[-1] + 1, a.itemsize
    for i in range(last - 1, first - 1, -1):
        if shape[i] > 1 and strides[i] != step:
            return None
        step *= shape[i]
    if last == len(shape):
        width, line, step = math.prod(shape[first:]), 0, a.itemsize
    elif not any(n > 1 for n in shape[:first]):
        width, line, step = math.prod(shape[last:]), a.itemsize, 0
    else:
        return None
    return (width, line, step) if width >= _SHORT else None
