"""`engine.utils`: PyTorch's address of the data package, and smaller tools, which are imported when a program first names them."""

from __future__ import annotations

from typing import Any

from ..base import addresses
from . import data

_LATER = frozenset(
    {
        "_foreach_utils",
        "_pytree",
        "benchmark",
        "checkpoint",
        "collect_env",
        "cpp_extension",
        "dlpack",
        "flop_counter",
        "hooks",
        "model_zoo",
        "tensorboard",
    }
)
__all__ = ["data"]


def __getattr__(name: str) -> Any:
    __tracebackhide__ = True
    return addresses.attribute(__name__, name, 2)
