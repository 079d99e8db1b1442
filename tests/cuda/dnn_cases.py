"""Convolutions that differ in what matters to cuDNN: dimensions, windows, groups."""

from __future__ import annotations

from engine.base.layout import channels_last, channels_last_3d, contiguous_format

GEOMETRIES = {  # name -> shapes of image and weight; stride, padding, dilation and groups
    "plain": ((2, 8, 9, 7), (4, 8, 3, 3), (1, 1, 1, 1)),
    "strided": ((2, 8, 9, 7), (4, 8, 3, 3), (2, 1, 1, 1)),
    "dilated": ((2, 8, 9, 9), (4, 8, 3, 2), ((2, 1), (2, 0), (1, 3), 1)),
    "pointwise": ((2, 16, 5, 5), (8, 16, 1, 1), (1, 0, 1, 1)),
    "same": ((2, 8, 9, 9), (4, 8, 2, 4), (1, "same", 1, 1)),
    "grouped": ((2, 8, 9, 9), (12, 4, 3, 3), (1, 1, 1, 2)),
    "depthwise": ((2, 8, 9, 9), (16, 1, 3, 3), (2, 1, 1, 8)),
    "one channel": ((1, 1, 9, 9), (1, 1, 5, 5), (1, 2, 1, 1)),
    "three channels": ((2, 3, 15, 15), (5, 3, 7, 7), (2, 3, 1, 1)),
    "a line": ((2, 8, 20), (4, 8, 3), (2, 1, 1, 1)),
    "a grouped line": ((2, 8, 20), (8, 2, 4), (1, "same", 1, 4)),
    "a volume": ((2, 4, 5, 6, 7), (8, 4, 3, 3, 3), ((1, 2, 1), 1, 1, 1)),
    "a grouped volume": ((2, 4, 5, 6, 7), (8, 2, 2, 3, 2), (1, (0, 1, 1), (1, 1, 2), 2)),
}
FORMATS = {(n, last): contiguous_format for n in (3, 4, 5) for last in (False, True)}  # (dimensions, channels last) -> memory format
FORMATS |= {(4, True): channels_last, (5, True): channels_last_3d}
