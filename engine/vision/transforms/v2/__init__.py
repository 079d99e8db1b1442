"""`torchvision.transforms.v2`: the transforms on whole samples, such as `(image, label)` or dicts of images.

In a sample all Pillow images are changed, each with the same random numbers; where there is none, the first tensor is. The rest stays as it
is. Images are Pillow's or plain tensors: `tv_tensors` (boxes, masks, videos) are not here.
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
_OTHER |= {"ConvertImageDtype", "Normalize", "ToTensor"}  # what has a class of its own here
globals().update({name: on_samples(name, __name__) for name in _v1 if name not in _OTHER})


class ConvertImageDtype(ToDtype):
    """`ToDtype` with `scale=True`."""

    def __init__(self, dtype: Any):
        super().__init__(dtype, scale=True)


class Normalize(on_samples("Normalize", __name__)):
    """`(image - mean) / std`, by channels, of a float tensor; one channel becomes as many as there are means."""

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) != 1 else inputs[0]
        return changed(sample, lambda image: functional.normalize(image, self.mean, self.std, self.inplace))


class RGB(OnSamples):
    """An image in grey with its channel three times; one in colour stays."""

    def forward(self, *inputs: Any) -> Any:
        return changed(inputs if len(inputs) != 1 else inputs[0], functional.grayscale_to_rgb)
