"""Transforms of samples without a v1 counterpart: conversions to images and dtypes, and containers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy

import engine
from engine import Tensor, nn

from ..functional import to_tensor
from ..functional.images import is_pil
from . import functional as F
from .samples import OnSamples, changed


class Identity(nn.Module):
    """Return the sample unchanged."""

    def forward(self, *inputs: Any) -> Any:
        return inputs if len(inputs) != 1 else inputs[0]


class Lambda(nn.Module):
    """Apply a user-defined function to every part of a sample with one of the `types`."""

    def __init__(self, lambd: Callable[[Any], Any], *types: type):
        super().__init__()
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd, self.types = lambd, types or (object,)

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) != 1 else inputs[0]
        return changed(sample, self.lambd, lambda leaves: [i for i, x in enumerate(leaves) if isinstance(x, self.types)])

    def extra_repr(self) -> str:
        return f"{getattr(self.lambd, '__name__', repr(self.lambd))}, types={[t.__name__ for t in self.types]}"


class ToImage(nn.Module):
    """Convert Pillow images and arrays (H, W, C) to tensors (C, H, W) without scaling; tensors are unchanged."""

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) != 1 else inputs[0]
        return changed(sample, F.to_image, lambda leaves: [i for i, x in enumerate(leaves) if is_pil(x) or isinstance(x, numpy.ndarray)])


class ToPureTensor(Identity):
    """Return the sample unchanged: all tensors are plain."""


class ToTensor(OnSamples):
    """Convert Pillow images and arrays to float tensors. Deprecated: use `Compose([ToImage(), ToDtype(float32, scale=True)])`."""

    def __init__(self) -> None:
        super().__init__()
        warnings.warn(
            "The transform `ToTensor()` is deprecated and will be removed in a future release. Instead, please use "
            "`v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])`.",
            stacklevel=2,
        )

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) != 1 else inputs[0]
        return changed(sample, to_tensor, lambda leaves: [i for i, x in enumerate(leaves) if is_pil(x) or isinstance(x, numpy.ndarray)])


class ToDtype(OnSamples):
    """Convert an image to another dtype; `scale` maps 255 in uint8 to 1.0. Pillow images are unchanged."""

    def __init__(self, dtype: Any, scale: bool = False):
        super().__init__()
        if not isinstance(dtype, engine.dtype):
            raise ValueError(f"dtype must be a torch.dtype, got {type(dtype)}: dicts by the kind of input are not supported here")
        self.dtype, self.scale = dtype, scale

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) != 1 else inputs[0]
        return changed(sample, lambda x: F.to_dtype(x, self.dtype, self.scale) if isinstance(x, Tensor) else x)


class Compose(nn.Module):
    """Apply the transforms in sequence."""

    def __init__(self, transforms: Sequence[Callable]):
        super().__init__()
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence of callables")
        if not transforms:
            raise ValueError("Pass at least one transform")
        self.transforms = transforms

    def order(self) -> Sequence[Callable]:
        """Return the transforms to apply in this call."""
        return self.transforms

    def forward(self, *inputs: Any) -> Any:
        for transform in self.order():
            outputs = transform(*inputs)
            inputs = outputs if len(inputs) > 1 else (outputs,)
        return inputs[0] if len(inputs) == 1 else inputs

    def extra_repr(self) -> str:
        return "\n".join(f"    {transform}" for transform in self.transforms)


class RandomApply(Compose):
    """Apply all transforms with probability `p`, else none."""

    def __init__(self, transforms: Sequence[Callable], p: float = 0.5):
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def order(self) -> Sequence[Callable]:
        return () if engine.rand(1) >= self.p else self.transforms


class RandomChoice(Compose):
    """Apply one transform, chosen with weights `p` or uniformly."""

    def __init__(self, transforms: Sequence[Callable], p: list[float] | None = None):
        super().__init__(transforms)
        p = [1.0] * len(transforms) if p is None else p
        if len(p) != len(transforms):
            raise ValueError(f"Length of p doesn't match the number of transforms: {len(p)} != {len(transforms)}")
        self.p = [one / sum(p) for one in p]

    def order(self) -> Sequence[Callable]:
        return [self.transforms[int(engine.multinomial(engine.tensor(self.p), 1))]]


class RandomOrder(Compose):
    """Apply all transforms in a random order."""

    def order(self) -> Sequence[Callable]:
        return [self.transforms[i] for i in engine.randperm(len(self.transforms)).tolist()]
