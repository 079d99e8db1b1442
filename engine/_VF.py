"""`torch._VF`: PyTorch's private address of the functions of tensors, at which programs call `lstm`, `gru` and their cells."""

from __future__ import annotations

import sys
from typing import Any

from .op import functions


def __getattr__(name: str) -> Any:
    """The function as it stands in the package now."""
    __tracebackhide__ = True
    found = getattr(sys.modules[__package__], name, None) if not name.startswith("__") else None
    if name in functions or getattr(found, "__module__", None) == f"{__package__}.nn.recurrence":
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
