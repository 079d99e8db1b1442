"""Apply image transforms to samples: nested containers of images, labels and other values."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import engine
from engine import Tensor, nn
from engine.base import tree

from .. import __dict__ as _v1
from ..functional.images import is_pil


def images_of(leaves: list) -> list[int]:
    """Return the indices of a sample's images: all Pillow images, or else the first tensor."""
    pictures = [i for i, leaf in enumerate(leaves) if is_pil(leaf)]
    return pictures or [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)][:1]


def changed(sample: Any, change: Callable[[Any], Any], chosen: Callable[[list], list[int]] = images_of) -> Any:
    """Apply `change` to each chosen leaf of a sample, with the same random numbers for each."""
    leaves = tree.leaves(sample)
    places = chosen(leaves)
    state = engine.random.states() if len(places) > 1 else None
    for k, i in enumerate(places):
        if k and state is not None:
            engine.random.restore(state)
        leaves[i] = change(leaves[i])
    return tree.filled(sample, iter(leaves))


class OnSamples(nn.Module):
    """Mixin that applies a transform's `forward` to the images in a sample."""

    def forward(self, *inputs: Any) -> Any:
        return changed(inputs if len(inputs) != 1 else inputs[0], super().forward)

    def extra_repr(self) -> str:
        plain = (bool, int, float, str, tuple, list, Enum)
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        return ", ".join(f"{name}={value}" for name, value in shown.items() if isinstance(value, plain))

    def __repr__(self) -> str:
        return nn.Module.__repr__(self)


class _Called(nn.Module):
    """`forward` for older transforms that are not modules and only have `__call__`."""

    def forward(self, image: Any) -> Any:
        return self._call(image)  # type: ignore[operator]


def on_samples(name: str, module: str) -> Any:
    """Return the named transform of `torchvision.transforms`, adapted to samples."""
    old = _v1[name]
    members = {"__doc__": old.__doc__, "__module__": module}
    if issubclass(old, nn.Module):
        return type(name, (OnSamples, old), members)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nn.Module.__init__(self)
        old.__init__(self, *args, **kwargs)

    return type(name, (OnSamples, _Called), {**members, "__init__": __init__, "_call": old.__call__})
