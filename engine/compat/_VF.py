"""`torch._VF`: PyTorch's private module of tensor functions, through which programs call `lstm`, `gru` and their cells."""

from __future__ import annotations

import sys
from typing import Any

from ..core.op import functions
from ..nn import recurrence


def __getattr__(name: str) -> Any:
    """Return the current function of this name in `engine`."""
    __tracebackhide__ = True
    found = getattr(sys.modules["engine"], name, None) if not name.startswith("__") else None
    if name in functions or name in vars(recurrence) and vars(recurrence)[name] is found:
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
