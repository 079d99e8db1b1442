"""`torchvision.transforms.v2`: transforms of whole samples, such as `(image, label)` or dicts of images.

All Pillow images in a sample are transformed with the same random numbers; without any, the first tensor is. Everything else is unchanged.
Images are Pillow images or plain tensors; `tv_tensors` (boxes, masks, videos) are not supported.
"""

from __future__ import annotations

from typing import Any

from .. import AutoAugmentPolicy, InterpolationMode
from .. import __all__ as _v1
from . import functional
from .conversion import Compose, Identity, Lambda, RandomApply, RandomChoice, RandomOrder, ToDtype, ToImage, ToPureTensor, ToTensor
from .mixing import CutMix, MixUp
from .samples import OnSamples, changed, on_samples

_OTHER = {"AutoAugmentPolicy", "InterpolationMode"} | {"Compose", "RandomApply", "RandomChoice", "RandomOrder", "Lambda"}
_OTHER |= {"ConvertImageDtype", "Normalize", "ToTensor"}  # these have their own classes here
globals().update({name: on_samples(name, __name__) for name in _v1 if name not in _OTHER})


class ConvertImageDtype(ToDtype):
    """`ToDtype` with `scale=True`."""

    def __init__(self, dtype: Any):
        super().__init__(dtype, scale=True)


class Normalize(on_samples("Normalize", __name__)):
    """Compute `(image - mean) / std` per channel of a float tensor; a single channel broadcasts to the number of means."""

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) != 1 else inputs[0]
        return changed(sample, lambda image: functional.normalize(image, self.mean, self.std, self.inplace))


class RGB(OnSamples):
    """Convert a grayscale image to RGB by repeating its channel; color images are unchanged."""

    def forward(self, *inputs: Any) -> Any:
        return changed(inputs if len(inputs) != 1 else inputs[0], functional.grayscale_to_rgb)
