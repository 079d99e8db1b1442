"""The memory layout of a tensor: its offset and strides in its storage, and the other tensors that share that storage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from engine.core import versions

from ..protocol import MemoryLayout, Sharer
from .text import bytes_text, count_text

FEW = 64  # elements up to which a storage is drawn element by element
PIECES = 96  # segments in which a larger storage is drawn
MOST = 1 << 24  # elements; a larger storage is not drawn if the tensor is not contiguous
SHARERS = 40


def storage(array: Any, named: Iterable[tuple[int, str, Any]] = ()) -> MemoryLayout | None:
    """The layout of an array, with the arrays in `named`, `(node, name, array)`, that share its storage. None if it has no strides."""
    if not hasattr(array, "strides"):
        return None
    strides = strides_of(array)
    low, high = _reach(array.shape, strides)
    owner = versions.storage(array)
    offset = (_address(array) - _address(owner)) // array.dtype.itemsize
    elements = max(owner.nbytes // array.dtype.itemsize, offset + high + 1) if array.size else 0
    offset = max(offset, -low)  # memory not owned by NumPy begins where the tensor does
    order, shares = _drawn(array.shape, strides, offset, elements, array.flags.c_contiguous) if elements else ([], [])
    seen = sharers(owner, array, named)
    words = layout(array, strides, offset, elements, versions.version(array), len(seen))
    return MemoryLayout(elements, offset, strides, order, shares, words, seen[:SHARERS])


def strides_of(array: Any) -> list[int]:
    """Strides in elements, like PyTorch's; NumPy's are in bytes."""
    return [step // array.dtype.itemsize for step in array.strides]


def _address(array: Any) -> int:
    return array.data.ptr if hasattr(array, "get") else array.__array_interface__["data"][0]


def _reach(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest offset of an element, relative to the first one."""
    ends = [(n - 1) * step for n, step in zip(shape, strides, strict=True) if n]
    return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)


def _drawn(shape: Sequence[int], strides: Sequence[int], offset: int, elements: int, dense: bool) -> tuple[list[int], list[float]]:
    """The flat index of the tensor's element at each position of a small storage (-1: none), or its share of each segment."""
    if elements <= FEW:
        order = numpy.full(elements, -1)
        places = numpy.full(shape, offset)
        for axis, (n, step) in enumerate(zip(shape, strides, strict=True)):
            places += (numpy.arange(n) * step).reshape((n,) + (1,) * (len(shape) - axis - 1))
        flat = places.reshape(-1)
        order[flat[::-1]] = numpy.arange(flat.size)[::-1]  # reversed, so that the first of an expanded tensor's elements wins
        return order.tolist(), []
    pieces = min(PIECES, elements)
    ends = numpy.arange(pieces + 1) * elements // pieces
    if dense:  # one contiguous range
        last = offset + math.prod(shape)
        touched = numpy.clip(numpy.minimum(ends[1:], last) - numpy.maximum(ends[:-1], offset), 0, None)
    elif elements <= MOST:
        marks = numpy.zeros(elements, numpy.uint8)
        numpy.lib.stride_tricks.as_strided(marks[offset:], shape, strides)[...] = 1
        touched = numpy.add.reduceat(marks, ends[:-1], dtype=numpy.int64)
    else:
        return [], []
    return [], (touched / numpy.diff(ends)).round(4).tolist()


def sharers(owner: Any, array: Any, named: Iterable[tuple[int, str, Any]]) -> list[Sharer]:
    """The named arrays stored in the memory of `owner`, and how each overlaps with `array`."""
    found = []
    for node, name, other in named:
        if not hasattr(other, "strides") or versions.storage(other) is not owner:
            continue
        other = versions.whole(other)  # the whole batch of a vmapped array
        begin, itemsize = (_address(other) - _address(owner)) // other.dtype.itemsize, other.dtype.itemsize
        low, high = _reach(other.shape, strides_of(other))
        mine, (first, last) = (_address(array) - _address(owner)) // array.dtype.itemsize, _reach(array.shape, strides_of(array))
        apart = (begin + high + 1) * itemsize <= (mine + first) * array.dtype.itemsize or (mine + last + 1) * array.dtype.itemsize <= (
            begin + low
        ) * itemsize
        same = begin == mine and other.shape == array.shape and other.strides == array.strides and itemsize == array.dtype.itemsize
        how = "the same elements" if same else "other elements of it" if apart else "overlapping elements"
        found.append(Sharer(node, name, list(other.shape), how))
    return found


def layout(array: Any, strides: Sequence[int], offset: int, elements: int, version: int, shared: int) -> str:
    """Describe the layout in words."""
    if not array.size:
        return "It has no elements."
    if array.ndim == 0:
        steps = "A single element"
    else:
        each = [f"{step} along axis {axis}" for axis, step in enumerate(strides)]
        steps = f"One step forward moves {', '.join(each)} in memory"
    parts = [steps + (f", and the first element is at place {offset}." if offset else ".")]
    if array.flags.c_contiguous:
        parts.append("It is contiguous: the elements are adjacent, the last axis fastest.")
    elif any(step == 0 and n > 1 for n, step in zip(array.shape, strides, strict=True)):
        parts.append("It is expanded: along an axis of stride 0 the same elements are seen again and again, so nothing was copied.")
    elif array.flags.f_contiguous:
        parts.append("It is not contiguous: the elements are in the order of its transpose, the first axis fastest.")
    else:
        parts.append("It is not contiguous: neighbors in the tensor are not neighbors in memory; contiguous() would copy it.")
    if elements > array.size:
        parts.append(
            f"It sees {count_text(array.size, 'element')} of a memory of {elements:,} ({bytes_text(elements * array.dtype.itemsize)})."
        )
    if shared:
        parts.append("A write in place through one of those who share the memory is seen by all of them.")
    if version:
        parts.append(f"The memory was written in place {'once' if version == 1 else f'{version} times'} (version {version}).")
    return " ".join(parts)
