"""`torchvision.transforms`: image transforms; random ones draw from PyTorch's generator in torchvision's order."""

from __future__ import annotations

from typing import Any

from engine.base import addresses

from . import functional
from .autoaugment import AugMix, AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from .color import (
    ColorJitter,
    GaussianBlur,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from .containers import Compose, Lambda, RandomApply, RandomChoice, RandomOrder, RandomTransforms
from .convert import ConvertImageDtype, LinearTransformation, Normalize, PILToTensor, RandomErasing, ToPILImage, ToTensor
from .crop import CenterCrop, FiveCrop, Pad, RandomCrop, RandomResizedCrop, Resize, TenCrop
from .functional.images import InterpolationMode
from .warp import ElasticTransform, RandomAffine, RandomHorizontalFlip, RandomPerspective, RandomRotation, RandomVerticalFlip

_LATER = frozenset({"v2"})
__all__ = [
    "Compose",
    "ToTensor",
    "PILToTensor",
    "ConvertImageDtype",
    "ToPILImage",
    "Normalize",
    "Resize",
    "CenterCrop",
    "Pad",
    "Lambda",
    "RandomApply",
    "RandomChoice",
    "RandomOrder",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "RandomResizedCrop",
    "FiveCrop",
    "TenCrop",
    "LinearTransformation",
    "ColorJitter",
    "RandomRotation",
    "RandomAffine",
    "Grayscale",
    "RandomGrayscale",
    "RandomPerspective",
    "RandomErasing",
    "GaussianBlur",
    "InterpolationMode",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "ElasticTransform",
    "AutoAugmentPolicy",
    "AutoAugment",
    "RandAugment",
    "TrivialAugmentWide",
    "AugMix",
]


def __getattr__(name: str) -> Any:
    __tracebackhide__ = True
    return addresses.attribute(__name__, name, 2)
