"""Pool regions of feature maps to a fixed size: by interpolation (`roi_align`) or by maxima of pixels (`roi_pool`)."""

from __future__ import annotations

import math
from typing import Any

import numpy

import engine
from engine import Tensor, nn


def _regions(boxes: Any, input: Tensor) -> list[list[float]]:
    """Return [image, x1, y1, x2, y2] per region, given a tensor (K, 5) or a list of tensors (L, 4), one per image."""
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise ValueError(f"The boxes tensor shape is not correct as Tensor[K, 5]: got {tuple(boxes.shape)}")
        return boxes.detach().double().tolist()
    if not isinstance(boxes, (list, tuple)) or any(one.ndim != 2 or one.shape[1] != 4 for one in boxes):
        raise ValueError("The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]")
    return [[float(i), *box] for i, one in enumerate(boxes) for box in one.detach().double().tolist()]


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _weights(start: float, length: float, bins: int, samples: int, size: int) -> numpy.ndarray:
    """Return weights (bins, size) of a line's pixels in each bin, averaging `samples` linear interpolations.

    Positions more than a pixel outside count as 0; those near the border are clamped to it.
    """
    places = start + (numpy.arange(bins * samples) + 0.5) * (length / bins / samples)
    inside = (places >= -1.0) & (places <= size)
    places = numpy.clip(places, 0, size - 1)
    low = numpy.minimum(places.astype(int), size - 1)
    high, part = numpy.minimum(low + 1, size - 1), places - low
    found = numpy.zeros((bins * samples, size))
    rows = numpy.arange(bins * samples)
    numpy.add.at(found, (rows, low), (1 - part) * inside)
    numpy.add.at(found, (rows, high), part * inside)
    return found.reshape(bins, samples, size).mean(1)


def roi_align(
    input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0, sampling_ratio: int = -1, aligned: bool = False
) -> Tensor:
    """Pool regions of feature maps (N, C, H, W) to (K, C, rows, columns) by interpolation (He et al. 2017, Mask R-CNN).

    `boxes` are scaled by `spatial_scale` to pixels; `aligned` shifts them by half a pixel. Each bin averages `sampling_ratio` positions per
    side, by default its size in pixels. Differentiable in the input.
    """
    rows, columns = _pair(output_size)
    height, width = input.shape[-2:]
    shift, found = (0.5 if aligned else 0.0), []
    for image, *box in _regions(boxes, input):
        x1, y1, x2, y2 = (side * spatial_scale - shift for side in box)
        w, h = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        down, across = (sampling_ratio if sampling_ratio > 0 else max(math.ceil(n / bins), 1) for n, bins in ((h, rows), (w, columns)))
        kind = {"dtype": input.dtype, "device": input.device}
        vertical = engine.tensor(_weights(y1, h, rows, down, height), **kind)
        horizontal = engine.tensor(_weights(x1, w, columns, across, width), **kind)
        found.append(vertical @ input[int(image)] @ horizontal.T)
    return engine.stack(found) if found else input.new_zeros((0, input.shape[1], rows, columns))


def roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Pool regions of (N, C, H, W) to (K, C, rows, columns) by maxima of pixels (Girshick 2015, Fast R-CNN); empty bins are 0."""
    rows, columns = _pair(output_size)
    height, width = input.shape[-2:]
    found = []
    for image, *box in _regions(boxes, input):
        x1, y1, x2, y2 = (math.floor(abs(side * spatial_scale) + 0.5) * (1 if side >= 0 else -1) for side in box)
        tall, wide = _edges(y1, y2, rows, height), _edges(x1, x2, columns, width)
        maps = input[int(image)]
        bins = [
            maps[:, top:bottom, left:right].flatten(1).max(1).values if bottom > top and right > left else maps.new_zeros(len(maps))
            for top, bottom in tall
            for left, right in wide
        ]
        found.append(engine.stack(bins, dim=1).reshape(-1, rows, columns))
    return engine.stack(found) if found else input.new_zeros((0, input.shape[1], rows, columns))


def _edges(start: int, end: int, bins: int, size: int) -> list[tuple[int, int]]:
    length = max(end - start + 1, 1) / bins
    return [
        (min(max(math.floor(i * length) + start, 0), size), min(max(math.ceil((i + 1) * length) + start, 0), size)) for i in range(bins)
    ]


class RoIAlign(nn.Module):
    """See `roi_align`."""

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = False):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def __repr__(self) -> str:
        return (
            f"RoIAlign(output_size={self.output_size}, spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio}, "
            f"aligned={self.aligned})"
        )


class RoIPool(nn.Module):
    """See `roi_pool`."""

    def __init__(self, output_size: Any, spatial_scale: float):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self) -> str:
        return f"RoIPool(output_size={self.output_size}, spatial_scale={self.spatial_scale})"
