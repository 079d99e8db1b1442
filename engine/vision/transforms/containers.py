"""Transforms of transforms: one after the other, some of them, one of them, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import engine
from engine import nn

from .functional.images import checked


def told(transform: Any, **settings: Any) -> str:
    """The text of a transform: "RandomCrop(size=(32, 32), padding=4)"."""
    return f"{type(transform).__name__}({', '.join(f'{name}={value}' for name, value in settings.items())})"


def _listed(transform: Any, lines: Sequence[Any]) -> str:
    return "\n    ".join([f"{type(transform).__name__}(", *map(str, lines)]) + "\n)"


class Compose:
    """The transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable]):
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _listed(self, self.transforms)


class Lambda:
    """A function of the program's own as a transform."""

    def __init__(self, lambd: Callable):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return told(self)


class RandomTransforms:
    """What containers that choose have in common: the list."""

    def __init__(self, transforms: Sequence[Callable]):
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __repr__(self) -> str:
        return _listed(self, self.transforms)


class RandomApply(nn.Module):
    """All of the transforms with probability `p`, none of them otherwise."""

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
    """All of the transforms in a random order, which Python's `random` draws."""

    def __call__(self, img: Any) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(RandomTransforms):
    """One of the transforms, by weights `p` or all alike; Python's `random` draws."""

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
    """What transforms have in common that change an image with probability `p`: the draw, and `change`."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def change(self, img: Any) -> Any:
        """The changed image."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        return self.change(img) if engine.rand(1) < self.p else img

    def __repr__(self) -> str:
        return told(self, p=self.p)


def uniform(low: float, high: float) -> float:
    """One number from PyTorch's stream, as `torch.empty(1).uniform_(low, high)` draws it."""
    return engine.empty(1).uniform_(low, high).item()


def integer(low: int, high: int) -> int:
    """One integer below `high`, as `torch.randint(low, high, (1,))` draws it."""
    return int(engine.randint(low, high, size=(1,)).item())


def colour_of(fill: Any, img: Any, channels: int) -> Any:
    """The fill as `functional` takes it: for tensors a list of floats, one for each channel."""
    if not checked(img) or fill is None:
        return fill
    return [float(fill)] * channels if isinstance(fill, (int, float)) else [float(one) for one in fill]
