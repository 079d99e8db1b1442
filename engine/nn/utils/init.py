"""`skip_init`: create a layer without advancing the random number generator."""

from __future__ import annotations

import inspect
from typing import Any

from ...core import random
from ..module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Create a module whose parameters will be loaded: the random state is unchanged, and the values should be considered uninitialized."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    before = random.states()
    try:
        return module_cls(*args, **kwargs)
    finally:
        random.restore(before)
