"""Where a kernel finds an element in each of its arrays: the forms of an elementwise kernel and their `Layout`."""

from __future__ import annotations

import functools
import struct
from typing import NamedTuple

import numpy

from ...base.layout import common_axes, strides_of

MOST_DIMS = 8  # of `Layout` in common.cuh, after dimensions that are neighbours in memory are merged


class Plan(NamedTuple):
    """How to compute the results of an elementwise kernel."""

    shape: tuple[int, ...]
    axes: tuple[int, ...] | None  # of the results, outermost in memory first; None: row-major
    form: str
    layout: bytes


@functools.lru_cache(4096)
def plan(arrays: tuple, outputs: int) -> Plan | None:
    """How to compute results from arrays that broadcast, each given by its shape, strides in bytes and dtype.

    Dimensions that are neighbours in all arrays are merged. Returns None if the shapes do not broadcast or more than MOST_DIMS stay.
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
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in steps]
    for axis in reversed(axes):
        if shape[axis] == 1:
            continue
        if sizes and all(own[axis] == merged[-1] * sizes[-1] for own, merged in zip(steps, strides, strict=True)):
            sizes[-1] *= shape[axis]
            continue
        sizes.append(shape[axis])
        for own, merged in zip(steps, strides, strict=True):
            merged.append(own[axis])
    rows = None if axes == tuple(range(len(shape))) else axes
    if all(merged in ([], [1]) for merged in strides):
        return Plan(shape, rows, "vector", b"")
    return None if len(sizes) > MOST_DIMS else Plan(shape, rows, *packed(tuple(sizes), tuple(map(tuple, strides))))


@functools.lru_cache(4096)
def packed(sizes: tuple, strides: tuple) -> tuple[str, bytes]:
    """The form of a kernel, and its `Layout`, for sizes and each array's strides in elements, the fastest dimension first."""
    last = [sum(s * (n - 1) for s, n in zip(own, sizes, strict=True)) for own in strides]
    far = max(*last, numpy.prod(sizes, dtype=object)) >= 1 << 31 or any(s < 0 for own in strides for s in own)
    rest = MOST_DIMS - len(sizes)
    steps = [s for d in range(len(sizes)) for s in (own[d] for own in strides)] + [0] * rest * len(strides)
    code = "q" if far else "I"
    format = f"={code}i{'4x' if far else ''}{MOST_DIMS * (1 + len(strides))}{code}"
    count = int(numpy.prod(sizes, dtype=object))
    return "far" if far else "strided", struct.pack(format, count, len(sizes), *sizes, *[1] * rest, *steps)
