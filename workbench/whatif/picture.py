"""A tensor as a small heat map in which every NaN and Inf stays visible."""

from __future__ import annotations

from typing import Any

import numpy

from .. import protocol
from ..inspector import host, summary

CELLS = 48  # maximum rows and columns


class Pictures:
    """Collects the binary buffers of one message while its pictures are made."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def of(self, array: Any, label: str) -> protocol.Picture:
        """A picture: the last axis as columns, all others as rows. Blocks are averaged, and a block with NaN or Inf is NaN or Inf."""
        data = host(array)
        plane = data.reshape(-1, data.shape[-1]) if data.ndim and data.size else data.reshape(data.size and 1, data.size)
        rows, cols = plane.shape
        cells = None
        if data.size:
            values = pooled(numpy.abs(plane) if plane.dtype.kind == "c" else plane)
            cells = protocol.Buffer(len(self.buffers), "float32", list(values.shape))
            self.buffers.append(values.tobytes())
        return protocol.Picture(label, summary(array), rows, cols, cells)


def pooled(plane: numpy.ndarray) -> numpy.ndarray:
    """Means over blocks, at most 48 by 48 of them, in float32. A block with infinities of both signs is NaN."""
    rows, cols = (-(-n // CELLS) for n in plane.shape)
    with numpy.errstate(all="ignore"):
        made = plane
        for axis, block in ((0, rows), (1, cols)):
            if block > 1:
                starts = numpy.arange(0, plane.shape[axis], block)
                sizes = numpy.minimum(block, plane.shape[axis] - starts)
                made = numpy.add.reduceat(made, starts, axis=axis, dtype=numpy.float64)
                made = made / (sizes[:, None] if axis == 0 else sizes)
        return numpy.ascontiguousarray(made.astype("<f4"))
