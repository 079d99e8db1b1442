"""Memory layout: PyTorch's layouts and memory formats, strides, and the memory order of an op's result.

"Axes" are the dimensions from the outermost in memory to the innermost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "jagged",
    "layout",
    "legacy_contiguous_format",
    "memory_format",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]


class layout:
    """How a tensor is stored, such as `strided`: one block of memory, read with strides."""

    __slots__ = ("name",)
    __module__ = "torch"  # the module in its repr

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return _layout, (self.name,)


class memory_format:
    """The memory order of the axes of a dense tensor, such as `channels_last`."""

    __slots__ = ("name",)
    __module__ = "torch"  # the module in its repr

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return _format, (self.name,)


LAYOUTS = {name: layout(name) for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")}
FORMATS = {name: memory_format(name) for name in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")}
strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = LAYOUTS.values()
contiguous_format, channels_last, channels_last_3d, preserve_format = FORMATS.values()
legacy_contiguous_format = contiguous_format
_CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def _layout(name: str) -> layout:
    return LAYOUTS[name]


def _format(name: str) -> memory_format:
    return FORMATS[name]


def order(format: memory_format, ndim: int) -> tuple[int, ...]:
    """Return the axes of a format, outermost in memory first. Raises RuntimeError if the format is for another number of dimensions."""
    if not isinstance(format, memory_format):
        raise TypeError(f"argument 'memory_format' must be torch.memory_format, not {type(format).__name__}")
    if format is contiguous_format:
        return tuple(range(ndim))
    axes = _CHANNELS_LAST.get(format)
    if axes is None:
        raise RuntimeError("unsupported memory format Preserve")
    if len(axes) != ndim:
        raise RuntimeError(f"required rank {len(axes)} tensor to use {format.name} format")
    return axes


def strides_of(shape: tuple, axes: tuple) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense block with its axes in this order in memory."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def told_strides(array: Any) -> tuple[int, ...]:
    """Return an array's strides in elements. The stride 0 that NumPy may give an axis of size 1 is replaced by that of a dense block."""
    strides = [s // array.itemsize for s in array.strides]
    for axis in range(array.ndim - 1, -1, -1):
        if array.shape[axis] == 1 and strides[axis] == 0:
            strides[axis] = 1 if axis == array.ndim - 1 else array.shape[axis + 1] * strides[axis + 1]
    return tuple(strides) if array.size else strides_of(array.shape, tuple(range(array.ndim)))


def lies_in(array: Any, format: memory_format) -> bool:
    """Whether an array has a memory format. An axis of size 1 may have any stride."""
    if format in _CHANNELS_LAST and array.ndim != len(_CHANNELS_LAST[format]):
        return False
    axes = order(format, array.ndim)
    step = array.itemsize
    for axis in reversed(axes):
        if array.shape[axis] != 1:
            if array.strides[axis] != step and array.size:
                return False
            step *= array.shape[axis]
    return True


def blank(empty: Callable, shape: tuple, dtype: Any, format: memory_format | tuple) -> Any:
    """Make an uninitialized array with a namespace's `empty`, in a memory format or with its axes in a given order."""
    axes = format if isinstance(format, tuple) else order(format, len(shape))
    return empty(tuple(shape[a] for a in axes), dtype).transpose(inverse(axes))


def axes_of(array: Any) -> tuple[int, ...] | None:
    """Return the axes of an array without gaps or overlaps, outermost in memory first.

    Returns None for row-major order, and for any other array, since a copy of it is made in row-major order.
    """
    if array.ndim < 2 or getattr(array, "strides", None) is None or array.flags.c_contiguous or not array.size:
        return None
    axes, step = sorted(range(array.ndim), key=lambda axis: -array.strides[axis]), array.itemsize
    for axis in reversed(axes):
        if array.shape[axis] != 1:
            if array.strides[axis] != step:
                return None
            step *= array.shape[axis]
    return tuple(axes)


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def overlaps(array: Any) -> bool:
    """Whether elements of the array share memory locations, as those of an expanded tensor do."""
    return bool(array.size) and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))


def kept_order(array: Any) -> Any:
    """NumPy's `order` for a copy of the array: "K", or "C" for an expanded array, which has no order."""
    return "C" if 0 in array.strides and overlaps(array) else "K"


def condensed(array: Any, dtype: Any, like: Any = None) -> Any:
    """A dense copy of an expanded array: axes that it, or `like`, repeats have no order in memory, the others keep theirs."""
    axes = common_axes(array.shape, [told_strides(array if like is None else like)])
    return array.transpose(axes).astype(dtype, "C").transpose(inverse(axes))


def copied(data: Any, like: Any) -> Any:
    """A copy of an array with the memory order of another one of the same shape."""
    axes = axes_of(like)
    return data.copy() if axes is None or data.__class__ is not like.__class__ else data.transpose(axes).copy().transpose(inverse(axes))


def suggested(array: Any) -> memory_format:
    """The memory format that PyTorch infers from an array's strides: channels last if they are unambiguous, else contiguous."""
    format = {4: channels_last, 5: channels_last_3d}.get(array.ndim)
    if format is None or not array.size:
        return contiguous_format
    strides, least = told_strides(array), 1
    for axis in reversed(order(format, array.ndim)):
        if strides[axis] < least or axis == 0 and least == strides[1]:
            return contiguous_format
        least = strides[axis] * array.shape[axis]
    return format


def common_axes(shape: tuple, operands: list[tuple]) -> tuple[int, ...]:
    """Return the axes, outermost in memory first, of PyTorch's result of an elementwise op on operands with these strides.

    The order of two axes follows the strides of the first operand that is broadcast along neither, or the sizes where those are equal.
    """
    inner = [*range(len(shape))][::-1]

    def before(a: int, b: int) -> int:
        for strides in operands:
            if strides[a] and strides[b]:
                if strides[a] != strides[b]:
                    return -1 if strides[a] < strides[b] else 1
                if shape[a] > shape[b]:
                    return 1
        return 0

    for i in range(1, len(inner)):
        for j in range(i - 1, -1, -1):
            if (order := before(inner[j], inner[i])) < 0:
                break
            if order > 0:
                inner[i], inner[j], i = inner[j], inner[i], j
    return tuple(reversed(inner))


def _laid(data: Any, axes: tuple, beside: Any) -> Any:
    """The array with its axes in this order in memory; itself if they are already."""
    if told_strides(data) == strides_of(data.shape, axes):
        return data
    out = numpy.empty_like(beside, data.dtype, "C", shape=tuple([data.shape[a] for a in axes])).transpose(inverse(axes))
    out[...] = data
    return out


def as_first(data: Any, first: Any, *others: Any) -> Any:
    """An elementwise result in PyTorch's memory order, which NumPy's differs from if the operands have different orders."""
    if data.__class__ is not first.__class__ or data.strides == first.strides:
        return data
    if data.shape == first.shape and 0 not in first.strides:
        out = numpy.empty_like(first, dtype=data.dtype)
        if out.strides == data.strides:
            return data
        out[...] = data
        return out
    operands = [_steps(x, data.shape) for x in (first, *others) if x.__class__ is first.__class__]
    return _laid(data, common_axes(data.shape, operands), first)


def _steps(array: Any, shape: tuple) -> tuple[int, ...]:
    """The strides of an array broadcast to a shape, 0 along repeated axes."""
    lead = len(shape) - array.ndim
    return (0,) * lead + tuple([s if n == m else 0 for s, n, m in zip(told_strides(array), array.shape, shape[lead:], strict=True)])


def as_indexed(data: Any, array: Any, index: tuple) -> Any:
    """The result of indexing with arrays, in PyTorch's memory order: the dimensions that are not indexed keep their order."""
    if data.__class__ is not array.__class__:  # indexed for each sample of a vmap
        return data
    kept, dim, picked = [], 0, []
    for item in index:
        if item.__class__ is slice:
            kept.append(array.strides[dim])
            dim += 1
        else:
            picked.append(len(kept))
            dim += item.ndim if item.dtype == bool else 1
    kept += array.strides[dim:]
    n = data.ndim - len(kept)
    at = picked[0] if len(set(picked)) == 1 else 0
    shape, ones = data.shape[at : at + n], (1,) * (len(kept) - at)
    operands = [(*kept[:at], *[0] * n, *kept[at:])]
    for item in index:
        if item.__class__ is not slice:  # a mask counts as the 1-d array of the places where it is true
            places = numpy.broadcast_to(item, shape) if item.dtype != bool else numpy.empty(shape)
            operands.append(_steps(places.reshape((1,) * at + shape + ones), data.shape))
    return _laid(data, common_axes(data.shape, operands), array)


def as_channels(data: Any, first: Any, *others: Any) -> Any:
    """The result in channels-last order, if the first operand is in channels-last order."""
    format = suggested(first)
    if format is contiguous_format or data.__class__ is not first.__class__ or data.ndim != first.ndim:
        return data
    return _laid(data, order(format, data.ndim), first)


def as_all(data: Any, first: Any, *others: Any) -> Any:
    """The result in channels-last order, if all operands are in channels-last order."""
    format = suggested(first)
    return as_channels(data, first) if all(suggested(other) is format for other in others) else data
