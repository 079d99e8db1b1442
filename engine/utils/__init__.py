"""`engine.utils`: PyTorch's name for `engine.data`, and smaller tools that are lazily imported."""

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
