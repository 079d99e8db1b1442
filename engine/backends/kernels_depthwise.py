"""Depthwise convolution of narrow images as matrix products: each line of the kernel is a band matrix that takes a line of the image to one
of the result.

Most entries of such a matrix are zeros, and still it is 1.5 to 6 times faster than NumPy's two passes for each element of the kernel, which
have no fused multiply-add and short inner loops. An infinity or nan would spread along its line (0 * inf): then the answer is None, and the
caller goes through the elements.
"""

from __future__ import annotations

from typing import Any

import numpy

from .reduction import sum
from .windows import Windows

_CHUNK = 1 << 17  # elements of padded images that are worked on at a time, while they are in the cache
_WIDE = 14  # how many times wider than the kernel (and its stride) lines may be: the zeros' price grows with them
_ROWS = 16  # fewer make a product of matrices slow


def convolution(x: Any, weight: Any, at: Windows) -> Any:
    """The convolution of x (N, C, H, W) with weight (C * factor, 1, *kernel), or None where this is not the way."""
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
    """The transpose of `convolution` in x: from a gradient to one of shape `size`; or None."""
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
    """Where lines of images and of results lie. The images of a channel stand one below the other, with their padding, as one tall image:
    the lines at which windows begin are then one matrix. Windows that begin at the end of an image and go on in the next are computed too.
    """

    def __init__(self, at: Windows, samples: int, factor: int):
        self.at, self.samples, self.factor = at, samples, factor
        step, (height, self.width) = at.stride[0], at.padded
        self.height = -(-height // step) * step
        self.rows = samples * self.height // step

    def blocks(self, weight: Any, channels: int) -> Any:
        """Some channels at a time, as a slice, and their matrices, one for each line of the kernel: (*, channels, width, factor * out)."""
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
        """Zeros in which there is room for the images of these channels, and for windows that begin in the last line."""
        below = (self.at.kernel[0] - 1) * self.at.dilation[0]
        return numpy.zeros((channels, (self.samples * self.height + below) * self.width), dtype)

    def images(self, space: Any) -> Any:
        """The images in a space: (channels, N, H, W)."""
        whole = space[:, : self.samples * self.height * self.width].reshape(-1, self.samples, self.height, self.width)
        return whole[:, :, : self.at.padded[0]][self.at.inside]

    def lines(self, space: Any) -> list:
        """For each line of the kernel, the lines of a space that it meets: (channels, rows, width)."""
        length, step = self.rows * self.at.stride[0] * self.width, self.at.dilation[0] * self.width
        met = (space[:, i * step : i * step + length] for i in range(self.at.kernel[0]))
        return [part.reshape(len(space), self.rows, -1)[..., : self.width] for part in met]

    def results(self, flat: Any) -> Any:
        """Results (channels, rows, factor * out) as (N, channels, factor, *out), without those of windows across two images."""
        each = flat.reshape(len(flat), self.samples, -1, self.factor, self.at.out[1])
        return each.transpose(1, 0, 3, 2, 4)[:, :, :, : self.at.out[0]]
