"""Containers of transforms: composition, random application, choice and order; and shared helpers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import engine
from engine import nn

from .functional.images import checked


def told(transform: Any, **settings: Any) -> str:
    """Format a transform, as in "RandomCrop(size=(32, 32), padding=4)"."""
    return f"{type(transform).__name__}({', '.join(f'{name}={value}' for name, value in settings.items())})"


def _listed(transform: Any, lines: Sequence[Any]) -> str:
    return "\n    ".join([f"{type(transform).__name__}(", *map(str, lines)]) + "\n)"


class Compose:
    """Apply the transforms in sequence."""

    def __init__(self, transforms: Sequence[Callable]):
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _listed(self, self.transforms)


class Lambda:
    """Apply a user-defined function."""

    def __init__(self, lambd: Callable):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return told(self)


class RandomTransforms:
    """Base class of containers that choose among a list of transforms."""

    def __init__(self, transforms: Sequence[Callable]):
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __repr__(self) -> str:
        return _listed(self, self.transforms)


class RandomApply(nn.Module):
    """Apply all transforms with probability `p`, else none."""

    def __init__(self, transforms: Any, p: float = 0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img: Any) -> Any:
        if self.p < engine.rand(1):
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _listed(self, [f"p={self.p}", *self.transforms])


class RandomOrder(RandomTransforms):
    """Apply all transforms in a random order, drawn by Python's `random`."""

    def __call__(self, img: Any) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(RandomTransforms):
    """Apply one transform, chosen by Python's `random` with weights `p` or uniformly."""

    def __init__(self, transforms: Sequence[Callable], p: Sequence[float] | None = None):
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args: Any) -> Any:
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


class WithProbability(nn.Module):
    """Base class of transforms that apply `change` with probability `p`."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def change(self, img: Any) -> Any:
        """Return the changed image."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        return self.change(img) if engine.rand(1) < self.p else img

    def __repr__(self) -> str:
        return told(self, p=self.p)


def uniform(low: float, high: float) -> float:
    """Draw a value from PyTorch's generator, as `torch.empty(1).uniform_(low, high)` does."""
    return engine.empty(1).uniform_(low, high).item()


def integer(low: int, high: int) -> int:
    """Draw an integer in [low, high), as `torch.randint(low, high, (1,))` does."""
    return int(engine.randint(low, high, size=(1,)).item())


def colour_of(fill: Any, img: Any, channels: int) -> Any:
    """Return the fill for `functional`: for tensors, a list of floats, one per channel."""
    if not checked(img) or fill is None:
        return fill
    return [float(fill)] * channels if isinstance(fill, (int, float)) else [float(one) for one in fill]
