"""The transforms used with pretrained weights."""

from __future__ import annotations

from typing import Any

from engine import Tensor, nn

from . import functional as F
from .functional.images import InterpolationMode


class ImageClassification(nn.Module):
    """Resize the shorter side to `resize_size`, crop the center, convert to floats and normalize with ImageNet's statistics."""

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ):
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        img = F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        return F.normalize(F.convert_image_dtype(img), self.mean, self.std)

    def __repr__(self) -> str:
        names = ("crop_size", "resize_size", "mean", "std", "interpolation")
        return "\n    ".join(["ImageClassification(", *(f"{name}={getattr(self, name)}" for name in names)]) + "\n)"
