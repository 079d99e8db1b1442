"""Heat maps of any two axes of a tensor, with facets along a third. Cells pool blocks of elements and mark any NaN or Inf in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy

from ..protocol import Buffer, Heat
from .numbers import host, library, real

CELLS = 128  # rows and columns per picture at most
ROOM = 64 << 10  # bytes of values per answer at most
FACETS = 36  # facets at most
FACETS_BY_ITSELF = 16  # facets at most if the axis is chosen automatically
NAN, POS_INF, NEG_INF = 1, 2, 4  # bits of a mark
_LARGEST = float(numpy.finfo(numpy.float32).max)


@dataclass(frozen=True)
class Look:
    """The selection to show: the axes for rows, columns and facets, and the index along every other axis.

    NONE means no such axis. CHOOSE takes the last two axes, and the axis before them for facets if it is short.
    """

    rows: int = -2
    cols: int = -2
    facet: int = -2
    index: Sequence[int] = field(default_factory=list)
    pool: Literal["mean", "absmax"] = "mean"


NONE, CHOOSE = -1, -2


def heat(array: Any, look: Look | None = None) -> tuple[Heat | None, list[bytes]]:
    """Return the heat map and its buffers; None for an empty tensor. Raises ValueError for axes that are out of range or repeated."""
    look = look or Look()
    shape = tuple(getattr(array, "shape", ()))
    if 0 in shape:
        return None, []
    axes = resolved(shape, look)
    index = [min(max(look.index[i] if i < len(look.index) else 0, 0), n - 1) for i, n in enumerate(shape)]
    facet, rows, cols = (1 if axis == NONE else shape[axis] for axis in axes)
    count = min(facet, FACETS)
    first = 0 if axes[0] == NONE else min(index[axes[0]], facet - count)
    planes = _planes(array, axes, index, first, count)
    r, c = block_of(count, rows, cols)
    pooled = r > 1 or c > 1
    values, marks = pool(planes, r, c, look.pool) if pooled else (planes, None)
    xp = library(values)
    with numpy.errstate(all="ignore"):
        if values.dtype.itemsize > 4:  # clip finite values to the float32 range, so that none becomes Inf
            values = xp.where(xp.isfinite(values), xp.clip(values, -_LARGEST, _LARGEST), values)
        values = values.astype("<f4")
    parts = [values] if marks is None else [values, marks]
    buffers = [(part.get() if xp is not numpy else part).tobytes() for part in parts]
    place = list(values.shape)
    return Heat(
        axes=axes, index=[n if i not in axes else 0 for i, n in enumerate(index)], facets=facet, first=first, rows=rows, cols=cols,
        block=[r, c], pool=look.pool, values=Buffer(0, "float32", place), marks=Buffer(1, "uint8", place) if pooled else None,
    ), buffers  # fmt: skip


def resolved(shape: tuple[int, ...], look: Look) -> list[int]:
    """Resolve the look to axes `[facet, rows, cols]` for a tensor of this shape."""
    n = len(shape)
    given = [axis for axis in (look.facet, look.rows, look.cols) if axis >= 0]
    if any(axis >= n for axis in given) or len(set(given)) < len(given):
        raise ValueError(f"The axes of a picture are {n} different ones at most, of 0 to {n - 1}; got {given}.")
    free = [axis for axis in range(n) if axis not in given]
    cols = look.cols if look.cols != CHOOSE else free.pop() if free else NONE
    rows = look.rows if look.rows != CHOOSE else free.pop() if free else NONE
    facet = look.facet
    if facet == CHOOSE:
        facet = free[-1] if free and 1 < shape[free[-1]] <= FACETS_BY_ITSELF else NONE
    return [facet, rows, cols]


def block_of(facets: int, rows: int, cols: int) -> tuple[int, int]:
    """The rows and columns of elements to pool into one cell, so that the picture fits into `ROOM` bytes."""
    if rows <= CELLS and cols <= CELLS and 4 * facets * rows * cols <= ROOM:
        return 1, 1
    r, c = -(-rows // CELLS), -(-cols // CELLS)
    while 5 * facets * -(-rows // r) * -(-cols // c) > ROOM:  # four bytes for the value, one for the mark
        if -(-rows // r) >= -(-cols // c):
            r += 1
        else:
            c += 1
    return r, c


def _planes(array: Any, axes: list[int], index: list[int], first: int, count: int) -> Any:
    """The shown elements as an array of shape (facets, rows, columns), a view if possible."""
    facet, rows, cols = axes
    shown = [axis for axis in axes if axis != NONE]
    picked = array if getattr(array, "ndim", 0) else host(array)
    picked = picked[tuple(slice(None) if i in shown else n for i, n in enumerate(index))]
    order = sorted(shown)
    picked = picked.transpose(tuple(order.index(axis) for axis in shown)) if len(shown) > 1 else picked
    picked = picked.reshape(tuple(1 if axis == NONE else array.shape[axis] for axis in axes))
    return real(picked[first : first + count] if facet != NONE else picked)


def pool(planes: Any, r: int, c: int, how: str) -> tuple[Any, Any]:
    """The mean or the maximum magnitude of the finite elements of each block, and its marks: bits for NaN, +Inf and -Inf."""
    xp = library(planes)
    with numpy.errstate(all="ignore"):
        if how == "mean":
            values = _blocks(xp, numpy.add, planes, r, c, numpy.float64) / xp.asarray(_counts(planes.shape, r, c))
        else:
            low, high = _blocks(xp, numpy.minimum, planes, r, c), _blocks(xp, numpy.maximum, planes, r, c)
            values = xp.maximum(xp.abs(low.astype(numpy.float64)), xp.abs(high.astype(numpy.float64)))
        if not xp.isfinite(values).all():
            return _pool_marked(xp, planes, r, c, how)
    return values, xp.zeros(values.shape, numpy.uint8)


def _pool_marked(xp: Any, planes: Any, r: int, c: int, how: str) -> tuple[Any, Any]:
    nan, pos, neg = planes != planes, planes == numpy.inf, planes == -numpy.inf
    marks = nan * numpy.uint8(NAN) | pos * numpy.uint8(POS_INF) | neg * numpy.uint8(NEG_INF)
    fine = xp.where(marks == 0, planes, 0)
    if how == "mean":
        count = _blocks(xp, numpy.add, (marks == 0).astype(numpy.float64), r, c)
        values = _blocks(xp, numpy.add, fine, r, c, numpy.float64) / xp.maximum(count, 1)
    else:
        values = _blocks(xp, numpy.maximum, xp.abs(fine), r, c)
    return values, _blocks(xp, numpy.bitwise_or, marks, r, c)


def _counts(shape: tuple[int, ...], r: int, c: int) -> numpy.ndarray:
    """The number of elements in each block; blocks at the far edges may be smaller."""
    rows, cols = (numpy.minimum(step, n - numpy.arange(0, n, step)) for n, step in ((shape[1], r), (shape[2], c)))
    return numpy.multiply.outer(rows, cols)[None]


def _blocks(xp: Any, op: Any, planes: Any, r: int, c: int, dtype: Any = None) -> Any:
    """`op` reduced over each block of r by c elements of the last two axes."""
    if xp is not numpy:
        return _blocks_at_once(xp, op, planes, r, c, dtype)
    f, rows, cols = planes.shape
    starts, tall = numpy.arange(0, rows, r), planes
    if r > 1:
        if f == 1 and planes.size > 1 << 20:  # reducing whole rows block by block stays in the cache
            tall = numpy.stack([op.reduce(planes[0, a : a + r], axis=0, dtype=dtype) for a in starts])[None]
        else:
            tall = op.reduceat(planes, starts, axis=1, dtype=dtype)
    return op.reduceat(tall, numpy.arange(0, cols, c), axis=2, dtype=dtype) if c > 1 else tall.astype(dtype or tall.dtype)


def _blocks_at_once(xp: Any, op: Any, planes: Any, r: int, c: int, dtype: Any = None) -> Any:
    """The same without `reduceat`, which CuPy lacks: the last block is padded with zeros for sums and marks, else with the edge."""
    f, rows, cols = planes.shape
    wide = ((0, 0), (0, -rows % r), (0, -cols % c))
    padded = xp.pad(planes, wide) if op is numpy.add or op is numpy.bitwise_or else xp.pad(planes, wide, mode="edge")
    cells = padded.reshape(f, padded.shape[1] // r, r, padded.shape[2] // c, c)
    if op is numpy.add:
        return cells.sum(axis=(2, 4), dtype=dtype)
    if op is numpy.bitwise_or:
        marks = [(cells & bit).max(axis=(2, 4)) for bit in (NAN, POS_INF, NEG_INF)]
        return marks[0] | marks[1] | marks[2]
    return cells.min(axis=(2, 4)) if op is numpy.minimum else cells.max(axis=(2, 4))
