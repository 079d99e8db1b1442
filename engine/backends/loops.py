"""NumPy's own loops over large arrays, shared between OpenMP's threads: the results are NumPy's, to the bit.

A ufunc is called as `over(numpy.add, x, y)`; the loop for the arrays' dtype is taken out of it and called in parts. There are threads if
the compiled kernels and oneDNN are there; otherwise, and for arrays that are small or not laid out in rows, `over` returns None, and the
caller asks NumPy.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from ..base.errors import FLOATING
from . import fused, threads
from .pointers import address

LARGE = 1 << 17  # elements; for fewer, NumPy is as fast, and for twice as many if they are in the cache
_PIECE = 1 << 14  # elements of a call, where no operand has rows
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
    """`ufunc(*operands)`, computed by several threads; None where that would not pay, or is not possible.

    The operands are arrays of float32 or float64, the first large one of the result's shape, and Python numbers. They may have gaps between
    rows, or be broadcast along the first or the last dimensions. The result is a new array in row-major order, or `out`, which may be one
    of the operands.
    """
    for whole in operands:
        if whole.__class__ is numpy.ndarray and whole.size >= LARGE:
            break
    else:
        return None
    if whole.dtype not in _DTYPES or (parts := threads.count()) < 2:
        return None
    shape, dtype, size = whole.shape, whole.dtype, whole.size
    places = []
    for a in operands:
        if a.__class__ is float or a.__class__ is int:
            a = numpy.array(a, dtype)
        elif a.__class__ is not numpy.ndarray or a.dtype is not dtype or not a.flags.aligned or _overlap(a, out):
            return None
        places.append(a)
    if (loop := _loop(ufunc, dtype)) is None or (module := fused.module()) is None or not module.team.can_share():
        return None
    if out is None:
        out = numpy.empty(shape, loop.out)
    elif out.shape != shape or out.dtype is not loop.out or not out.flags.behaved:
        return None
    places.append(out)
    rows, width = [], 0
    for a in places:
        if (found := _in_rows(a, shape)) is None or width and found[0] and found[0] != width:
            return None
        rows.append(found)
        width = width or found[0]
    width = width or _PIECE
    lines, steps = [line if own else width * step for own, line, step in rows], [step for _, _, step in rows]
    module.team.loop_over_rows(parts, -(-size // width), width, size, loop[:2], [address(a) for a in places], lines, steps)
    return out


def into(ufunc: Callable, *operands: Any, out: Any) -> None:
    """`ufunc(*operands, out=out)`, which computes on where the program has NumPy raise errors about infinities and nans."""
    try:
        ufunc(*operands, out=out)
    except FLOATING:
        return  # NumPy raises at the end, when all is written


def add_to(x: Any, y: Any) -> None:
    """`x += y`."""
    if x.__class__ is not numpy.ndarray:
        x += y
    elif x.size < LARGE or over(numpy.add, x, y, out=x) is None:
        into(numpy.add, x, y, out=x)


def copied(x: Any, out: Any = None) -> Any:
    """A copy in row-major order, in `out` if given; None as for `over`."""
    if x.__class__ is not numpy.ndarray or x.size < LARGE or (words := _WORDS.get(x.itemsize)) is None or x.dtype.kind not in "fiub":
        return None
    if out is None:
        out = numpy.empty(x.shape, x.dtype)  # the result is no view
    return None if over(numpy.positive, x.view(words), out=out.view(words)) is None else out


def _overlap(a: numpy.ndarray, out: Any) -> bool:
    """Whether a loop in parts might read what another part of it has written."""
    return out is not None and out is not a and numpy.may_share_memory(out, a)


def _in_rows(a: numpy.ndarray, shape: tuple) -> tuple[int, int, int] | None:
    """How an array lies when it is broadcast to a shape: the elements of a row, and the bytes from row to row and from element to element.

    The first is 0 if rows of any length will do: then all elements follow one another, or are the same one. Returns None if the strides are
    not those of rows of elements, the rows in their order and not short.
    """
    if a.shape == shape and a.flags.c_contiguous:
        return 0, 0, a.itemsize
    if a.ndim > len(shape) or any(n != m and n != 1 for n, m in zip(a.shape, shape[len(shape) - a.ndim :], strict=True)):
        return None
    strides = [0] * (len(shape) - a.ndim) + [0 if n == 1 else stride for n, stride in zip(a.shape, a.strides, strict=True)]
    if not any(strides):
        return 0, 0, 0
    levels: list[list[int]] = []  # length and stride, the innermost first
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if levels and stride == levels[-1][0] * levels[-1][1]:
            levels[-1][0] *= n
        elif n > 1:
            levels.append([n, stride])
    if len(levels) != 2:
        return None
    (width, step), (_, line) = levels
    return (width, line, step) if step >= 0 and line >= 0 and not 0 < line < step and width >= _SHORT else None
