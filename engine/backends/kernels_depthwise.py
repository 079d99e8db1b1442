"""Depthwise convolution of narrow images as matrix products, with each line of the kernel as a band matrix.

The matrix maps a line of the image to a line of the result. Most of its entries are zeros, yet this is 1.5 to 6 times faster than NumPy's
two passes per kernel element, which lack fused multiply-add and have short inner loops. An infinity or nan would spread along its line
(0 * inf): the functions then return None, and the caller loops over the kernel elements instead.
"""

from __future__ import annotations

from typing import Any

import numpy

from .reduction import sum
from .windows import Windows

_CHUNK = 1 << 17  # elements of padded images processed at a time, so that they stay in the cache
_WIDE = 14  # maximum width of a line, in kernel widths times the stride: the cost of the zeros grows with it
_ROWS = 16  # with fewer, matrix products are slow


def convolution(x: Any, weight: Any, at: Windows) -> Any:
    """Convolve x (N, C, H, W) with weight (C * factor, 1, *kernel); None if this method does not suit or the result is not finite."""
    bands = _bands(x, weight, at, x.shape)
    if bands is None:
        return None
    out = numpy.empty((*x.shape[:2], bands.factor, *at.out), x.dtype)
    for block, matrices in bands.blocks(weight, x.shape[1]):
        space = bands.space(len(out[0, block]), x.dtype)
        bands.images(space)[...] = x[:, block].swapaxes(0, 1)
        first, *lines = bands.lines(space)
        total = first @ matrices[0]
        term = numpy.empty_like(total)
        for line, matrix in zip(lines, matrices[1:], strict=True):
            total += numpy.matmul(line, matrix, out=term)
        out[:, block] = bands.results(total)
    return out.reshape(len(x), -1, *at.out) if numpy.isfinite(sum(out)) else None


def convolution_input(g: Any, weight: Any, at: Windows, size: tuple) -> Any:
    """The transpose of `convolution` in x: map an upstream gradient to one of shape `size`, or return None as above."""
    bands = _bands(g, weight, at, size)
    if bands is None:
        return None
    out, g = numpy.empty(size, g.dtype), g.reshape(*size[:2], bands.factor, *at.out)
    for block, matrices in bands.blocks(weight, size[1]):
        space = bands.space(len(out[0, block]), g.dtype)
        flat = numpy.zeros((len(space), bands.rows, matrices.shape[-1]), g.dtype)
        bands.results(flat)[...] = g[:, block]
        term = numpy.empty((len(space), bands.rows, bands.width), g.dtype)
        for line, matrix in zip(bands.lines(space), matrices.swapaxes(-1, -2), strict=True):
            line += numpy.matmul(flat, matrix, out=term)
        out[:, block] = bands.images(space).swapaxes(0, 1)
    return out if numpy.isfinite(sum(out)) else None


def _bands(array: Any, weight: Any, at: Windows, size: tuple) -> _Bands | None:
    if array.__class__ is not numpy.ndarray or array.dtype.kind != "f" or weight.dtype != array.dtype or len(at.out) != 2:
        return None
    if at.padded[1] > _WIDE * at.kernel[1] * at.stride[1] or size[0] * at.out[0] < _ROWS:
        return None
    return _Bands(at, size[0], len(weight) // size[1])


class _Bands:
    """The layout of image and result lines. The padded images of a channel are stacked vertically into one tall image, so that the lines at
    which windows begin form one matrix. Windows that begin in one image and end in the next are computed too.
    """

    def __init__(self, at: Windows, samples: int, factor: int):
        self.at, self.samples, self.factor = at, samples, factor
        step, (height, self.width) = at.stride[0], at.padded
        self.height = -(-height // step) * step
        self.rows = samples * self.height // step

    def blocks(self, weight: Any, channels: int) -> Any:
        """Yield slices of channels and their band matrices, one per line of the kernel: (lines, channels, width, factor * out)."""
        (tall, long), out = self.at.kernel, self.at.out[1]
        each = weight.reshape(channels, self.factor, tall, long)
        step = max(1, _CHUNK // (self.samples * self.height * self.width))
        for block in (slice(i, i + step) for i in range(0, channels, step)):
            few = each[block].transpose(2, 0, 1, 3)
            matrices = numpy.zeros((tall, few.shape[1], self.width, self.factor * out), weight.dtype)
            line, channel, row, item = matrices.strides
            strides = (line, channel, out * item, self.at.dilation[1] * row, self.at.stride[1] * row + item)
            numpy.lib.stride_tricks.as_strided(matrices, (*few.shape, out), strides)[...] = few[..., None]
            yield block, matrices

    def space(self, channels: int, dtype: Any) -> Any:
        """Return zeros with room for the images of these channels, and for windows that begin in the last line."""
        below = (self.at.kernel[0] - 1) * self.at.dilation[0]
        return numpy.zeros((channels, (self.samples * self.height + below) * self.width), dtype)

    def images(self, space: Any) -> Any:
        """Return a view of the images in a space: (channels, N, H, W)."""
        whole = space[:, : self.samples * self.height * self.width].reshape(-1, self.samples, self.height, self.width)
        return whole[:, :, : self.at.padded[0]][self.at.inside]

    def lines(self, space: Any) -> list:
        """Return, for each line of the kernel, a view of the lines of a space that it meets: (channels, rows, width)."""
        length, step = self.rows * self.at.stride[0] * self.width, self.at.dilation[0] * self.width
        met = (space[:, i * step : i * step + length] for i in range(self.at.kernel[0]))
        return [part.reshape(len(space), self.rows, -1)[..., : self.width] for part in met]

    def results(self, flat: Any) -> Any:
        """Return results (channels, rows, factor * out) as (N, channels, factor, *out), without those of windows across two images."""
        each = flat.reshape(len(flat), self.samples, -1, self.factor, self.at.out[1])
        return each.transpose(1, 0, 3, 2, 4)[:, :, :, : self.at.out[0]]
