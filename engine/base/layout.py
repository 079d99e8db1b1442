"""How a tensor's elements lie in memory: PyTorch's layouts and memory formats, and the order of axes that a format means."""

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
    """How a tensor is stored. Those of this library are all `strided`: one block of memory, read with strides."""

    __slots__ = ("name",)
    __module__ = "torch"  # as it prints

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return _layout, (self.name,)


class memory_format:
    """In which order the axes of a dense tensor follow each other in memory."""

    __slots__ = ("name",)
    __module__ = "torch"  # as it prints

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
    """The axes from the outermost in memory to the innermost. RuntimeError where a format is for tensors of another rank."""
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
    """The strides, in elements, of a dense block whose axes follow each other in memory in this order."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def told_strides(array: Any) -> tuple[int, ...]:
    """An array's strides in elements. An axis of one element, which NumPy may give the stride 0, steps over what is inside it."""
    strides = [s // array.itemsize for s in array.strides]
    for axis in range(array.ndim - 1, -1, -1):
        if array.shape[axis] == 1 and strides[axis] == 0:
            strides[axis] = 1 if axis == array.ndim - 1 else array.shape[axis + 1] * strides[axis + 1]
    return tuple(strides) if array.size else strides_of(array.shape, tuple(range(array.ndim)))


def lies_in(array: Any, format: memory_format) -> bool:
    """Whether an array's elements lie as a format says. An axis of one element may have any stride."""
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
    """Unset memory of a shape in a format, or with its axes in an order, from a namespace's `empty`."""
    axes = format if isinstance(format, tuple) else order(format, len(shape))
    return empty(tuple(shape[a] for a in axes), dtype).transpose(inverse(axes))


def axes_of(array: Any) -> tuple[int, ...] | None:
    """The axes of an array that lies without gaps or overlaps, from the outermost in memory to the innermost; None for row-major order,
    which is also what the others get.
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
    """The permutation that takes back another one."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def overlaps(array: Any) -> bool:
    """Whether elements of the array share their places in memory, as those of an expanded tensor do."""
    return bool(array.size) and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))


def kept_order(array: Any) -> Any:
    """NumPy's word for the order in which a copy of the array lies: its own, but in rows where it is expanded and has none."""
    return "C" if 0 in array.strides and overlaps(array) else "K"


def condensed(array: Any, dtype: Any, like: Any = None) -> Any:
    """A copy of an expanded array: what it, or `like`, repeats has no order in memory, the rest keeps its own."""
    axes = common_axes(array.shape, [told_strides(array if like is None else like)])
    return array.transpose(axes).astype(dtype, "C").transpose(inverse(axes))


def copied(data: Any, like: Any) -> Any:
    """A copy of an array that lies as another one of its shape does."""
    axes = axes_of(like)
    return data.copy() if axes is None or data.__class__ is not like.__class__ else data.transpose(axes).copy().transpose(inverse(axes))


def suggested(array: Any) -> memory_format:
    """The memory format that PyTorch takes from an array's strides: channels last where they say so without doubt, rows else."""
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
    """The axes of a shape from the outermost in memory to the innermost in which PyTorch lays a result of operands with these strides.

    Of two axes the first operand that is broadcast along neither decides, by its strides, and by the sizes where those are equal.
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
    """The array with its axes in this order in memory; itself where they are."""
    if told_strides(data) == strides_of(data.shape, axes):
        return data
    out = numpy.empty_like(beside, data.dtype, "C", shape=tuple([data.shape[a] for a in axes])).transpose(inverse(axes))
    out[...] = data
    return out


def as_first(data: Any, first: Any, *others: Any) -> Any:
    """An elementwise result in the order in which the first operand lies, where NumPy took another since the operands disagree."""
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
    """The strides of an array that is broadcast to a shape, 0 along what is repeated."""
    lead = len(shape) - array.ndim
    return (0,) * lead + tuple([s if n == m else 0 for s, n, m in zip(told_strides(array), array.shape, shape[lead:], strict=True)])


def as_indexed(data: Any, array: Any, index: tuple) -> Any:
    """What arrays in an index have picked: in memory, the dimensions that the index leaves alone follow each other as in the array."""
    if data.__class__ is not array.__class__:  # picked for each sample of a vmap
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
        if item.__class__ is not slice:  # a mask stands for the places where it is true, one after the other
            places = numpy.broadcast_to(item, shape) if item.dtype != bool else numpy.empty(shape)
            operands.append(_steps(places.reshape((1,) * at + shape + ones), data.shape))
    return _laid(data, common_axes(data.shape, operands), array)


def as_channels(data: Any, first: Any, *others: Any) -> Any:
    """The result for images with their channels last in memory, laid so as well."""
    format = suggested(first)
    if format is contiguous_format or data.__class__ is not first.__class__ or data.ndim != first.ndim:
        return data
    return _laid(data, order(format, data.ndim), first)


def as_all(data: Any, first: Any, *others: Any) -> Any:
    """The result of several images that all have their channels last in memory, laid so as well."""
    format = suggested(first)
    return as_channels(data, first) if all(suggested(other) is format for other in others) else data
