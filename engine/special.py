"""`engine.special`: special functions, under PyTorch's names. The ops are in `engine/ops/special.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import ops  # noqa: F401  loading them fills the table of functions
from .core.public import of_home as _of_home

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_of_home("special"))
