"""Color transforms, random or with a fixed probability."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import engine
from engine import Tensor, nn

from . import functional as F
from .containers import WithProbability, told, uniform
from .functional.geometry import size_of


class ColorJitter(nn.Module):
    """Adjust brightness, contrast, saturation and hue by random factors in a random order.

    A scalar x means factors in [1 - x, 1 + x] (lower bound at least 0), or shifts in [-x, x] for `hue` (at most 0.5).
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0):
        super().__init__()
        self.brightness = self._range(brightness, "brightness")
        self.contrast = self._range(contrast, "contrast")
        self.saturation = self._range(saturation, "saturation")
        self.hue = self._range(hue, "hue", 0, (-0.5, 0.5))

    @staticmethod
    def _range(value: Any, name: str, centre: float = 1, bound: tuple[float, float] = (0, float("inf"))) -> tuple[float, float] | None:
        if isinstance(value, numbers.Number):
            if value < 0:  # type: ignore[operator]
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            low, high = centre - float(value), centre + float(value)  # type: ignore[arg-type]
            low = max(low, 0.0) if centre else low
        elif isinstance(value, (tuple, list)) and len(value) == 2:
            low, high = float(value[0]), float(value[1])
        else:
            raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == centre else (low, high)

    @staticmethod
    def get_params(brightness: Any, contrast: Any, saturation: Any, hue: Any) -> tuple[Tensor, Any, Any, Any, Any]:
        """Return the order of the four adjustments, and their factors (None to skip one)."""
        order = engine.randperm(4)
        drawn = [None if limits is None else uniform(limits[0], limits[1]) for limits in (brightness, contrast, saturation, hue)]
        return order, drawn[0], drawn[1], drawn[2], drawn[3]

    def forward(self, img: Any) -> Any:
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order.tolist():
            if factors[i] is not None:
                img = changes[i](img, factors[i])
        return img

    def __repr__(self) -> str:
        return told(self, brightness=self.brightness, contrast=self.contrast, saturation=self.saturation, hue=self.hue)


class Grayscale(nn.Module):
    """Convert to grayscale, with one channel or three equal ones."""

    def __init__(self, num_output_channels: int = 1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self) -> str:
        return told(self, num_output_channels=self.num_output_channels)


class RandomGrayscale(WithProbability):
    """Convert to grayscale with probability `p`, keeping the number of channels."""

    def __init__(self, p: float = 0.1):
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, F.get_image_num_channels(img))


class GaussianBlur(nn.Module):
    """Blur with a Gaussian kernel of odd `kernel_size` (x, y) and a random `sigma` from a range."""

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)):
        super().__init__()
        size = size_of(kernel_size, "Kernel size should be a tuple/list of two integers")
        if any(one <= 0 or one % 2 == 0 for one in size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        if isinstance(sigma, numbers.Number):
            if sigma <= 0:  # type: ignore[operator]
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        elif isinstance(sigma, Sequence) and len(sigma) == 2:
            if not 0.0 < sigma[0] <= sigma[1]:
                raise ValueError("sigma values should be positive and of the form (min, max).")
        else:
            raise ValueError("sigma should be a single number or a list/tuple with length 2.")
        self.kernel_size, self.sigma = size, sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """Return the standard deviation."""
        return uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, list(self.kernel_size), [sigma, sigma])

    def __repr__(self) -> str:
        return told(self, kernel_size=self.kernel_size, sigma=self.sigma)


class RandomInvert(WithProbability):
    """Invert colors with probability `p`."""

    def change(self, img: Any) -> Any:
        return F.invert(img)


class RandomPosterize(WithProbability):
    """Keep only the highest `bits` of each byte, with probability `p`."""

    def __init__(self, bits: int, p: float = 0.5):
        super().__init__(p)
        self.bits = bits

    def change(self, img: Any) -> Any:
        return F.posterize(img, self.bits)

    def __repr__(self) -> str:
        return f"RandomPosterize(bits={self.bits},p={self.p})"


class RandomSolarize(WithProbability):
    """Invert values at or above the threshold, with probability `p`."""

    def __init__(self, threshold: float, p: float = 0.5):
        super().__init__(p)
        self.threshold = threshold

    def change(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)

    def __repr__(self) -> str:
        return f"RandomSolarize(threshold={self.threshold},p={self.p})"


class RandomAdjustSharpness(WithProbability):
    """Sharpen (factor above 1) or soften (below 1), with probability `p`."""

    def __init__(self, sharpness_factor: float, p: float = 0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)

    def __repr__(self) -> str:
        return f"RandomAdjustSharpness(sharpness_factor={self.sharpness_factor},p={self.p})"


class RandomAutocontrast(WithProbability):
    """Stretch each channel to the full range, with probability `p`."""

    def change(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(WithProbability):
    """Equalize the histogram of each channel, with probability `p`."""

    def change(self, img: Any) -> Any:
        return F.equalize(img)
