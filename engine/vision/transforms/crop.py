"""Transforms of size: resizing, padding and cropping."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import engine
from engine import nn

from . import functional as F
from .containers import integer, told, uniform
from .functional.geometry import size_of
from .functional.images import InterpolationMode, interpolation_of

_TWO = "Please provide only two dimensions (h, w) for size."


class Resize(nn.Module):
    """Resize to (height, width), or the shorter side to a length, with the longer side at most `max_size`."""

    def __init__(self, size: Any, interpolation: Any = InterpolationMode.BILINEAR, max_size: int | None = None, antialias: Any = True):
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size, self.max_size, self.antialias = size, max_size, antialias
        self.interpolation = interpolation_of(interpolation)

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return told(self, size=self.size, interpolation=self.interpolation.value, max_size=self.max_size, antialias=self.antialias)


class CenterCrop(nn.Module):
    """Crop the center, padding smaller images with zeros."""

    def __init__(self, size: Any):
        super().__init__()
        self.size = size_of(size, _TWO)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def __repr__(self) -> str:
        return told(self, size=self.size)


class Pad(nn.Module):
    """Pad all sides, (left and right, top and bottom), or (left, top, right, bottom)."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        if not isinstance(padding, (int, float, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, (int, float, str, tuple, list)):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return told(self, padding=self.padding, fill=self.fill, padding_mode=self.padding_mode)


class RandomCrop(nn.Module):
    """Crop at a random position, after `padding`; `pad_if_needed` pads smaller images."""

    def __init__(self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        self.size = tuple(size_of(size, _TWO))
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return (row, column, height, width)."""
        _, height, width = F.get_dimensions(img)
        rows, columns = output_size
        if height < rows or width < columns:
            raise ValueError(f"Required crop size {(rows, columns)} is larger than input image size {(height, width)}")
        if (rows, columns) == (height, width):
            return 0, 0, height, width
        return integer(0, height - rows + 1), integer(0, width - columns + 1), rows, columns

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, height, width = F.get_dimensions(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))

    def __repr__(self) -> str:
        return told(self, size=self.size, padding=self.padding)


class RandomResizedCrop(nn.Module):
    """Crop a random area (fraction `scale`) and aspect `ratio` (width / height), and resize it to `size`."""

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: Any = True,
    ):
        super().__init__()
        self.size = size_of(size, _TWO)
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        self.interpolation = interpolation_of(interpolation)
        self.antialias, self.scale, self.ratio = antialias, scale, ratio

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        """Return (row, column, height, width); the largest central crop of an allowed ratio if ten draws did not fit."""
        _, height, width = F.get_dimensions(img)
        low, high = engine.log(engine.tensor(ratio, dtype=engine.float32)).tolist()
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = engine.exp(engine.empty(1).uniform_(low, high)).item()
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return integer(0, height - h + 1), integer(0, width - w + 1), h, w
        h, w = height, width
        if width / height < min(ratio):
            h = round(width / min(ratio))
        elif width / height > max(ratio):
            w = round(height * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        i, j, h, w = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, i, j, h, w, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self) -> str:
        return told(
            self,
            size=self.size,
            scale=tuple(round(s, 4) for s in self.scale),
            ratio=tuple(round(r, 4) for r in self.ratio),
            interpolation=self.interpolation.value,
            antialias=self.antialias,
        )


class FiveCrop(nn.Module):
    """Crop the four corners and the center, as a tuple."""

    def __init__(self, size: Any):
        super().__init__()
        self.size = size_of(size, _TWO)

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.five_crop(img, self.size)

    def __repr__(self) -> str:
        return told(self, size=self.size)


class TenCrop(FiveCrop):
    """Crop the four corners and the center of the image and of its mirror image, as a tuple."""

    def __init__(self, size: Any, vertical_flip: bool = False):
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return told(self, size=self.size, vertical_flip=self.vertical_flip)
