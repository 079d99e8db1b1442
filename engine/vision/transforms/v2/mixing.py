"""Mix the samples of a batch: MixUp (Zhang et al. 2017) and CutMix (Yun et al. 2019)."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor, nn
from engine.base import tree
from engine.nn import functional as F


class _Mixing(nn.Module):
    """Base class for batches `(images, labels)`: float or uint8 images (N, C, H, W); labels (N,) or probabilities (N, classes)."""

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None, labels_getter: Any = "default"):
        super().__init__()
        if labels_getter != "default":
            raise NotImplementedError(f"{type(self).__name__}: only labels_getter='default' is supported: the integers of (images, labels)")
        self.alpha, self.num_classes = float(alpha), num_classes

    def mixed(self, images: Tensor, part: float) -> tuple[Tensor, float]:
        """Return the mixed images, and the fraction of each that is its own."""
        raise NotImplementedError

    def forward(self, *inputs: Any) -> Any:
        from engine.distributions import Beta

        sample = inputs if len(inputs) != 1 else inputs[0]
        leaves = tree.leaves(sample)
        images = next((i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.ndim >= 4), None)
        labels = next((i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.ndim in (1, 2)), None)
        if images is None or labels is None:
            raise ValueError(f"{type(self).__name__}: expected a batch of images (N, C, H, W) and of labels (N,) or (N, classes)")
        if len(leaves[images]) != len(leaves[labels]):
            raise ValueError(f"expected as many labels as images, got {len(leaves[labels])} and {len(leaves[images])}")
        part = float(Beta(engine.tensor(self.alpha), engine.tensor(self.alpha)).sample())
        leaves[images], own = self.mixed(leaves[images], part)
        leaves[labels] = self._labels(leaves[labels], own)
        return tree.filled(sample, iter(leaves))

    def _labels(self, label: Tensor, own: float) -> Tensor:
        if label.ndim == 1:
            if self.num_classes is None:
                raise ValueError("num_classes must be passed if the labels are indices (1D tensor)")
            label = F.one_hot(label, num_classes=self.num_classes)
        label = label if label.is_floating_point() else label.float()
        return label.roll(1, 0).mul(1.0 - own).add(label.mul(own))

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}, num_classes={self.num_classes}"


class MixUp(_Mixing):
    """Blend each image and label with the previous one in the batch, with a Beta-distributed weight."""

    def mixed(self, images: Tensor, part: float) -> tuple[Tensor, float]:
        return images.roll(1, 0).mul(1.0 - part).add(images.mul(part)).to(images.dtype), part


class CutMix(_Mixing):
    """Replace a rectangle of each image by the previous image's; labels are mixed by area."""

    def mixed(self, images: Tensor, part: float) -> tuple[Tensor, float]:
        height, width = images.shape[-2:]
        x, y = int(engine.randint(width, size=(1,))), int(engine.randint(height, size=(1,)))
        half = 0.5 * math.sqrt(1.0 - part)
        w, h = int(half * width), int(half * height)
        x1, x2, y1, y2 = max(x - w, 0), min(x + w, width), max(y - h, 0), min(y + h, height)
        out = images.clone()
        out[..., y1:y2, x1:x2] = images.roll(1, 0)[..., y1:y2, x1:x2]
        return out, 1.0 - (x2 - x1) * (y2 - y1) / (width * height)
