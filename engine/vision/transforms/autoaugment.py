"""Augmentation policies: AutoAugment, RandAugment, TrivialAugment and AugMix."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import engine
from engine import Tensor, nn

from . import functional as F
from .containers import colour_of, integer, told
from .functional.images import InterpolationMode, checked

Space = dict[str, tuple[Any, bool]]  # op -> (magnitudes from weak to strong or None, whether to draw a sign)


class AutoAugmentPolicy(Enum):
    """The dataset on which a policy was learned."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# Cubuk et al. 2019, appendix: 25 pairs of ops with probability and magnitude index (0 to 9)
_POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize .4 8, Rotate .6 9; Solarize .6 5, AutoContrast .6 -; Equalize .8 -, Equalize .6 -; Posterize .6 7, Posterize .6 6;
        Equalize .4 -, Solarize .2 4; Equalize .4 -, Rotate .8 8; Solarize .6 3, Equalize .6 -; Posterize .8 5, Equalize 1 -;
        Rotate .2 3, Solarize .6 8; Equalize .6 -, Posterize .4 6; Rotate .8 8, Color .4 0; Rotate .4 9, Equalize .6 -;
        Equalize 0 -, Equalize .8 -; Invert .6 -, Equalize 1 -; Color .6 4, Contrast 1 8; Rotate .8 8, Color 1 2;
        Color .8 8, Solarize .8 7; Sharpness .4 7, Invert .6 -; ShearX .6 5, Equalize 1 -; Color .4 0, Equalize .6 -;
        Equalize .4 -, Solarize .2 4; Solarize .6 5, AutoContrast .6 -; Invert .6 -, Equalize 1 -; Color .6 4, Contrast 1 8;
        Equalize .8 -, Equalize .6 -""",
    AutoAugmentPolicy.CIFAR10: """
        Invert .1 -, Contrast .2 6; Rotate .7 2, TranslateX .3 9; Sharpness .8 1, Sharpness .9 3; ShearY .5 8, TranslateY .7 9;
        AutoContrast .5 -, Equalize .9 -; ShearY .2 7, Posterize .3 7; Color .4 3, Brightness .6 7; Sharpness .3 9, Brightness .7 9;
        Equalize .6 -, Equalize .5 -; Contrast .6 7, Sharpness .6 5; Color .7 7, TranslateX .5 8; Equalize .3 -, AutoContrast .4 -;
        TranslateY .4 3, Sharpness .2 6; Brightness .9 6, Color .2 8; Solarize .5 2, Invert 0 -; Equalize .2 -, AutoContrast .6 -;
        Equalize .2 -, Equalize .6 -; Color .9 9, Equalize .6 -; AutoContrast .8 -, Solarize .2 8; Brightness .1 3, Color .7 0;
        Solarize .4 5, AutoContrast .9 -; TranslateY .9 9, TranslateY .7 9; AutoContrast .9 -, Solarize .8 3; Equalize .8 -, Invert .1 -;
        TranslateY .7 9, AutoContrast .9 -""",
    AutoAugmentPolicy.SVHN: """
        ShearX .9 4, Invert .2 -; ShearY .9 8, Invert .7 -; Equalize .6 -, Solarize .6 6; Invert .9 -, Equalize .6 -;
        Equalize .6 -, Rotate .9 3; ShearX .9 4, AutoContrast .8 -; ShearY .9 8, Invert .4 -; ShearY .9 5, Solarize .2 6;
        Invert .9 -, AutoContrast .8 -; Equalize .6 -, Rotate .9 3; ShearX .9 4, Solarize .3 3; ShearY .8 8, Invert .7 -;
        Equalize .9 -, TranslateY .6 6; Invert .9 -, Equalize .6 -; Contrast .3 3, Rotate .8 4; Invert .8 -, TranslateY 0 2;
        ShearY .7 6, Solarize .4 8; Invert .6 -, Rotate .8 4; ShearY .3 7, TranslateX .9 3; ShearX .1 6, Invert .6 -;
        Solarize .7 2, TranslateY .6 7; ShearY .8 4, Invert .8 -; ShearX .7 9, TranslateY .8 3; ShearY .8 5, AutoContrast .7 -;
        ShearX .7 2, Invert .1 -""",
}


def _policy(text: str) -> list[tuple]:
    def change(words: str) -> tuple[str, float, int | None]:
        name, p, magnitude = words.split()
        return name, float(p), None if magnitude == "-" else int(magnitude)

    return [tuple(map(change, pair.split(","))) for pair in text.split(";")]


def _apply(img: Any, name: str, magnitude: float, interpolation: InterpolationMode, fill: Any) -> Any:
    """Apply one op to an image."""
    still: dict[str, Any] = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    still |= {"interpolation": interpolation, "fill": fill}
    if name in ("ShearX", "ShearY"):
        degrees = math.degrees(math.atan(magnitude))
        return F.affine(img, **{**still, "shear": [degrees, 0.0] if name == "ShearX" else [0.0, degrees], "center": [0, 0]})
    if name in ("TranslateX", "TranslateY"):
        return F.affine(img, **{**still, "translate": [int(magnitude), 0] if name == "TranslateX" else [0, int(magnitude)]})
    if name == "Rotate":
        return F.rotate(img, magnitude, interpolation=interpolation, fill=fill)
    if name == "Posterize":
        return F.posterize(img, int(magnitude))
    if name == "Solarize":
        return F.solarize(img, magnitude)
    factors = {"Brightness": F.adjust_brightness, "Color": F.adjust_saturation, "Contrast": F.adjust_contrast}
    factors["Sharpness"] = F.adjust_sharpness
    if name in factors:
        return factors[name](img, 1.0 + magnitude)
    if name == "Identity":
        return img
    return {"AutoContrast": F.autocontrast, "Equalize": F.equalize, "Invert": F.invert}[name](img)


def _space(bins: int, shear: float, right: float, down: float, turn: float, factor: float, bits: int) -> Space:
    """Return the ops with `bins` magnitudes up to the given maxima; Posterize keeps 8 down to 8 - `bits` bits."""
    signed = {"ShearX": shear, "ShearY": shear, "TranslateX": right, "TranslateY": down, "Rotate": turn}
    signed |= dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), factor)
    space: Space = {name: (engine.linspace(0.0, most, bins), True) for name, most in signed.items()}
    space["Posterize"] = (8 - (engine.arange(bins) / ((bins - 1) / bits)).round().int(), False)
    space["Solarize"] = (engine.linspace(255.0, 0.0, bins), False)
    return space | {"AutoContrast": (None, False), "Equalize": (None, False)}


class _Augment(nn.Module):
    """Base class of the policies, with interpolation, fill and a random op."""

    def __init__(self, interpolation: InterpolationMode, fill: Any):
        super().__init__()
        self.interpolation, self.fill = interpolation, fill

    def _changed(self, img: Any, space: Space, index: Any, fill: Any) -> Any:
        """Apply a random op; `index` returns the index of its magnitude."""
        name = list(space)[integer(0, len(space))]
        magnitudes, signed = space[name]
        magnitude = 0.0 if magnitudes is None else float(magnitudes[index(magnitudes)].item())
        if signed and integer(0, 2):
            magnitude *= -1.0
        return _apply(img, name, magnitude, self.interpolation, fill)


class AutoAugment(_Augment):
    """Apply one of 25 learned pairs of ops, each with its own probability. Tensors must be uint8."""

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: Any = None,
    ):
        super().__init__(interpolation, fill)
        if policy not in _POLICIES:
            raise ValueError(f"The provided policy {policy} is not recognized.")
        self.policy, self.policies = policy, _policy(_POLICIES[policy])

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Return the index of a pair, two values to compare with its probabilities, and two signs."""
        return integer(0, transform_num), engine.rand((2,)), engine.randint(2, (2,))

    def forward(self, img: Any) -> Any:
        channels, height, width = F.get_dimensions(img)
        fill = colour_of(self.fill, img, channels)
        space = _space(10, 0.3, 150.0 / 331.0 * width, 150.0 / 331.0 * height, 30.0, 0.9, 4)
        space["Invert"] = (None, False)
        which, probs, signs = self.get_params(len(self.policies))
        for i, (name, p, index) in enumerate(self.policies[which]):
            if probs[i] <= p:
                magnitudes, signed = space[name]
                magnitude = 0.0 if index is None else float(magnitudes[index].item())
                magnitude *= -1.0 if signed and signs[i] == 0 else 1.0
                img = _apply(img, name, magnitude, self.interpolation, fill)
        return img

    def __repr__(self) -> str:
        return told(self, policy=self.policy, fill=self.fill)


class RandAugment(_Augment):
    """Apply `num_ops` random ops, all with the same `magnitude` out of `num_magnitude_bins`. Tensors must be uint8."""

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: Any = None,
    ):
        super().__init__(interpolation, fill)
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def forward(self, img: Any) -> Any:
        channels, height, width = F.get_dimensions(img)
        fill = colour_of(self.fill, img, channels)
        space = _space(self.num_magnitude_bins, 0.3, 150.0 / 331.0 * width, 150.0 / 331.0 * height, 30.0, 0.9, 4)
        for _ in range(self.num_ops):
            img = self._changed(img, {"Identity": (None, False), **space}, lambda magnitudes: self.magnitude, fill)
        return img

    def __repr__(self) -> str:
        names = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")
        return told(self, **{name: getattr(self, name) for name in names})


class TrivialAugmentWide(_Augment):
    """Apply one random op with a random magnitude. Tensors must be uint8."""

    def __init__(self, num_magnitude_bins: int = 31, interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Any = None):
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img: Any) -> Any:
        fill = colour_of(self.fill, img, F.get_image_num_channels(img))
        space = {"Identity": (None, False), **_space(self.num_magnitude_bins, 0.99, 32.0, 32.0, 135.0, 0.99, 6)}
        return self._changed(img, space, lambda magnitudes: integer(0, len(magnitudes)), fill)

    def __repr__(self) -> str:
        return told(self, num_magnitude_bins=self.num_magnitude_bins, interpolation=self.interpolation, fill=self.fill)


class AugMix(_Augment):
    """Mix an image with `mixture_width` augmented versions, with Dirichlet-distributed weights. Tensors must be uint8."""

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: Any = None,
    ):
        super().__init__(interpolation, fill)
        if not 1 <= severity <= 10:
            raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, all_ops

    def _space(self, height: int, width: int) -> Space:
        space = _space(10, 0.3, width / 3.0, height / 3.0, 30.0, 0.9, 4)
        space["Posterize"] = (4 - (engine.arange(10) / (9 / 4)).round().int(), False)
        last = {name: space.pop(name) for name in ("Brightness", "Color", "Contrast", "Sharpness")}
        return space | (last if self.all_ops else {})

    def forward(self, orig_img: Any) -> Any:
        from engine.distributions import Dirichlet

        channels, height, width = F.get_dimensions(orig_img)
        tensor = checked(orig_img)
        img = orig_img if tensor else F.pil_to_tensor(orig_img)
        fill = colour_of(self.fill, img, channels) if tensor else self.fill
        space = self._space(height, width)
        batch = img.view([1] * max(4 - img.ndim, 0) + list(img.shape))
        lead = [batch.shape[0]] + [1] * (batch.ndim - 1)
        own = Dirichlet(engine.tensor([self.alpha, self.alpha]).expand(batch.shape[0], -1)).sample()
        weights = Dirichlet(engine.tensor([self.alpha] * self.mixture_width).expand(batch.shape[0], -1)).sample() * own[:, 1:]
        mix = own[:, 0].view(lead) * batch
        for i in range(self.mixture_width):
            changed = batch
            for _ in range(self.chain_depth if self.chain_depth > 0 else integer(1, 4)):
                changed = self._changed(changed, space, lambda magnitudes: integer(0, self.severity), fill)
            mix = mix + weights[:, i].view(lead) * changed
        mixed = mix.view(img.shape).to(img.dtype)
        return mixed if tensor else F.to_pil_image(mixed)

    def __repr__(self) -> str:
        names = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")
        return told(self, **{name: getattr(self, name) for name in names})
