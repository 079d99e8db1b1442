"""Where a kernel finds an element in each of its arrays: the forms of an elementwise kernel and their `Layout`."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from ...base.layout import common_axes, strides_of

MOST_DIMS = 8  # of `Layout` in common.cuh, after dimensions that are neighbors in memory are merged
SMALL = 1 << 31  # offsets below it are computed in 32 bits


class Plan(NamedTuple):
    """How to compute the results of an elementwise kernel."""

    shape: tuple[int, ...]
    axes: tuple[int, ...] | None  # of the results, outermost in memory first; None: row-major
    form: str
    layout: bytes


@functools.lru_cache(4096)
def plan(arrays: tuple, outputs: int) -> Plan | None:
    """How to compute results from arrays that broadcast, each given by its shape, strides in bytes and dtype.

    Dimensions that are neighbors in all arrays are merged. Returns None if the shapes do not broadcast or more than MOST_DIMS stay.
    """
    try:
        shape = numpy.broadcast_shapes(*[own for own, _, _ in arrays])
    except ValueError:
        return None
    steps = [
        (0,) * (len(shape) - len(own)) + tuple([s // dtype.itemsize if n > 1 else 0 for s, n in zip(strides, own, strict=True)])
        for own, strides, dtype in arrays
    ]  # fmt: skip
    axes = common_axes(shape, steps)
    steps += [strides_of(shape, axes)] * outputs
    rows = None if axes == tuple(range(len(shape))) else axes
    sizes, strides = merged([shape[axis] for axis in axes], [[own[axis] for axis in axes] for own in steps])
    if all(own in ((), (1,)) for own in strides):
        return Plan(shape, rows, "vector", b"")
    if len(sizes) > MOST_DIMS:
        return None
    wide, layout = packed(sizes, strides)
    return Plan(shape, rows, "far" if wide else "strided", layout)


def merged(shape: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Merge the dimensions that are adjacent in memory in all arrays, given by their strides in elements.

    Returns the sizes of the dimensions that stay and each array's strides, the innermost dimension first.
    """
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in steps]
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            continue
        if sizes and all(own[axis] == kept[-1] * sizes[-1] for own, kept in zip(steps, strides, strict=True)):
            sizes[-1] *= shape[axis]
            continue
        sizes.append(shape[axis])
        for own, kept in zip(steps, strides, strict=True):
            kept.append(own[axis])
    return tuple(sizes), tuple(map(tuple, strides))


@functools.lru_cache(4096)
def packed(sizes: tuple, strides: tuple, reach: int = 0) -> tuple[bool, bytes]:
    """Whether offsets take 64 bits, and the `Layout` of common.cuh, for what `merged` returns.

    `reach` is a number that an offset must be able to hold as well. Raises NotImplementedError for more than MOST_DIMS dimensions.
    """
    if len(sizes) > MOST_DIMS:
        raise NotImplementedError(f"{len(sizes)} dimensions that cannot be merged; {MOST_DIMS} are supported on a GPU")
    count = math.prod(sizes)
    last = [sum(s * (n - 1) for s, n in zip(own, sizes, strict=True)) for own in strides]
    wide = max(count, reach, *last) >= SMALL or any(s < 0 for own in strides for s in own)
    rest = MOST_DIMS - len(sizes)
    steps = [own[d] for d in range(len(sizes)) for own in strides] + [0] * rest * len(strides)
    code = "q" if wide else "I"
    layout = struct.pack(f"={code}i{'4x' if wide else ''}{MOST_DIMS + len(steps)}{code}", count, len(sizes), *sizes, *[1] * rest, *steps)
    return wide, layout
