"""`parallel_apply`: run several modules, each on its own inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data_parallel import moved
from ..module import Module
from .scatter_gather import _place

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict] | None = None, devices: Sequence[Any] | None = None
) -> list:
    """Run module i on inputs i (a tuple or one argument), on device i if `devices` is given; here sequentially.

    Raises AssertionError unless there are as many inputs, keyword dicts and devices as modules.
    """
    n = len(modules)
    named = [{}] * n if kwargs_tup is None else kwargs_tup
    places = [None] * n if devices is None else devices
    if not len(inputs) == len(named) == len(places) == n:
        raise AssertionError(f"The number of modules {n} is not equal to the number of inputs {len(inputs)}, keywords or devices")
    found = []
    for module, given, keywords, place in zip(modules, inputs, named, places, strict=True):
        given = tuple(given) if isinstance(given, (list, tuple)) else (given,)
        if place is not None:
            given, keywords = moved(given, _place(place)), moved(keywords, _place(place))
        found.append(module(*given, **keywords))
    return found
