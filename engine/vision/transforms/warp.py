"""Transforms by resampling: flips, rotations, affine and perspective transforms, and elastic displacements."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import engine
from engine import Tensor, nn

from . import functional as F
from .containers import WithProbability, colour_of, integer, told, uniform
from .functional.images import InterpolationMode, interpolation_of


def _angles(x: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    """Return a range of degrees; a scalar x stands for (-x, x)."""
    if isinstance(x, numbers.Number):
        if x < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be positive.")
        x = [-x, x]  # type: ignore[operator]
    else:
        _sequence(x, name, lengths)
    return [float(one) for one in x]


def _sequence(x: Any, name: str, lengths: tuple[int, ...]) -> None:
    told_lengths = " or ".join(map(str, lengths))
    if not isinstance(x, Sequence):
        raise TypeError(f"{name} should be a sequence of length {told_lengths}.")
    if len(x) not in lengths:
        raise ValueError(f"{name} should be a sequence of length {told_lengths}.")


def _checked_fill(fill: Any) -> Any:
    if fill is None:
        return 0
    if not isinstance(fill, (Sequence, numbers.Number)):
        raise TypeError("Fill should be either a sequence or a number.")
    return fill


class RandomHorizontalFlip(WithProbability):
    """Flip horizontally with probability `p`."""

    def change(self, img: Any) -> Any:
        return F.hflip(img)


class RandomVerticalFlip(WithProbability):
    """Flip vertically with probability `p`."""

    def change(self, img: Any) -> Any:
        return F.vflip(img)


class RandomRotation(nn.Module):
    """Rotate counterclockwise by random degrees from a range, about `center` (x, y), by default the middle."""

    def __init__(
        self, degrees: Any, interpolation: Any = InterpolationMode.NEAREST, expand: bool = False, center: Any = None, fill: Any = 0
    ):
        super().__init__()
        self.interpolation = interpolation_of(interpolation)
        self.degrees = _angles(degrees, "degrees")
        if center is not None:
            _sequence(center, "center", (2,))
        self.center, self.expand, self.fill = center, expand, _checked_fill(fill)

    @staticmethod
    def get_params(degrees: list[float]) -> float:
        """Return the angle."""
        return uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, img: Any) -> Any:
        fill = colour_of(self.fill, img, F.get_image_num_channels(img))
        return F.rotate(img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, fill)

    def __repr__(self) -> str:
        centre = {} if self.center is None else {"center": self.center}
        fill = {} if self.fill is None else {"fill": self.fill}
        return told(self, degrees=self.degrees, interpolation=self.interpolation.value, expand=self.expand, **centre, **fill)


class RandomAffine(nn.Module):
    """Randomly rotate, translate (up to the fractions `translate` of width and height), scale and shear (degrees)."""

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ):
        super().__init__()
        self.interpolation = interpolation_of(interpolation)
        self.degrees = _angles(degrees, "degrees")
        if translate is not None:
            _sequence(translate, "translate", (2,))
            if any(not 0.0 <= t <= 1.0 for t in translate):
                raise ValueError("translation values should be between 0 and 1")
        if scale is not None:
            _sequence(scale, "scale", (2,))
            if any(s <= 0 for s in scale):
                raise ValueError("scale values should be positive")
        if center is not None:
            _sequence(center, "center", (2,))
        self.translate, self.scale, self.center = translate, scale, center
        self.shear = None if shear is None else _angles(shear, "shear", (2, 4))
        self.fill = _checked_fill(fill)

    @staticmethod
    def get_params(degrees: Any, translate: Any, scale_ranges: Any, shears: Any, img_size: Any) -> tuple:
        """Return (angle, (right, down) in pixels, scale, (shear x, shear y)); `img_size` is (width, height)."""
        angle = uniform(float(degrees[0]), float(degrees[1]))
        right = down = 0
        if translate is not None:
            most = [float(part * size) for part, size in zip(translate, img_size, strict=True)]
            right, down = (round(uniform(-one, one)) for one in most)
        scale = 1.0 if scale_ranges is None else uniform(scale_ranges[0], scale_ranges[1])
        x = y = 0.0
        if shears is not None:
            x = uniform(shears[0], shears[1])
            y = uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0
        return angle, (right, down), scale, (x, y)

    def forward(self, img: Any) -> Any:
        channels, height, width = F.get_dimensions(img)
        drawn = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return F.affine(img, *drawn, interpolation=self.interpolation, fill=colour_of(self.fill, img, channels), center=self.center)

    def __repr__(self) -> str:
        settings = {"degrees": self.degrees, "translate": self.translate, "scale": self.scale, "shear": self.shear}
        settings["interpolation"] = self.interpolation.value if self.interpolation != InterpolationMode.NEAREST else None
        settings |= {"fill": self.fill if self.fill != 0 else None, "center": self.center}
        return told(self, **{name: value for name, value in settings.items() if value is not None})


class RandomPerspective(nn.Module):
    """Move the corners inwards by up to `distortion_scale` of half the sides, with probability `p`."""

    def __init__(self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = 0):
        super().__init__()
        self.p, self.distortion_scale = p, distortion_scale
        self.interpolation, self.fill = interpolation_of(interpolation), _checked_fill(fill)

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """Return the old and new positions [x, y] of the corners, clockwise from the upper left."""
        x, y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
        left, right, top, bottom = (0, x + 1), (width - x - 1, width), (0, y + 1), (height - y - 1, height)
        ends = [[integer(*h), integer(*v)] for h, v in ((left, top), (right, top), (right, bottom), (left, bottom))]
        return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], ends

    def forward(self, img: Any) -> Any:
        channels, height, width = F.get_dimensions(img)
        fill = colour_of(self.fill, img, channels)
        if engine.rand(1) >= self.p:
            return img
        return F.perspective(img, *self.get_params(width, height, self.distortion_scale), self.interpolation, fill)

    def __repr__(self) -> str:
        return told(self, p=self.p)


class ElasticTransform(nn.Module):
    """Displace pixels by a random field with magnitude `alpha` and smoothness `sigma`, each a scalar or (rows, columns)."""

    def __init__(self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = 0):
        super().__init__()
        self.alpha, self.sigma = self._pair(alpha, "alpha"), self._pair(sigma, "sigma")
        self.interpolation = interpolation_of(interpolation)
        self.fill = [float(fill)] if isinstance(fill, (int, float)) else [float(one) for one in fill]

    @staticmethod
    def _pair(x: Any, name: str) -> list[float]:
        if not isinstance(x, (float, int, Sequence)) or isinstance(x, str):
            raise TypeError(f"{name} should be float or a sequence of floats. Got {type(x)}")
        given = [float(x)] if isinstance(x, (float, int)) else list(x)
        if len(given) not in (1, 2):
            raise ValueError(f"{name} is a sequence its length should be one of 2. Got {len(given)}")
        if not all(isinstance(one, (float, int)) for one in given):
            raise TypeError(f"{name} should be a sequence of floats. Got {[type(one) for one in given]}")
        return given * (2 // len(given))

    @staticmethod
    def get_params(alpha: list[float], sigma: list[float], size: list[int]) -> Tensor:
        """Return the displacement field (1, H, W, 2), in units of half the image."""
        fields = []
        for far, smooth, length in zip(alpha, sigma, size, strict=True):
            field = engine.rand([1, 1, *size]) * 2 - 1
            if smooth > 0.0:
                kernel = int(8 * smooth + 1) | 1
                field = F.gaussian_blur(field, [kernel, kernel], [float(s) for s in sigma])
            fields.append(field * far / length)
        return engine.cat(fields, 1).permute([0, 2, 3, 1])

    def forward(self, tensor: Any) -> Any:
        _, height, width = F.get_dimensions(tensor)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(tensor, displacement, self.interpolation, self.fill)

    def __repr__(self) -> str:
        return told(self, alpha=self.alpha, sigma=self.sigma, interpolation=self.interpolation, fill=self.fill)
