"""`skip_init`: a layer whose parameters nobody has drawn."""

from __future__ import annotations

import inspect
from typing import Any

from ...core.random import get_rng_state, set_rng_state
from ..module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module of this class for parameters that will be loaded: the random stream is where it was, the values are not to be relied on."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    before = get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_rng_state(before)
