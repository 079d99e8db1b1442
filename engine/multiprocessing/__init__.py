"""`torch.multiprocessing`: Python's `multiprocessing`, extended to share tensors between processes."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

from .memory import is_shared, share_
from .reductions import init_reductions
from .spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
__all__ += multiprocessing.__all__

init_reductions()
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the names that `set_sharing_strategy` accepts."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """Return the name passed to `set_sharing_strategy` last."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted for compatibility: tensors are always shared by file descriptor, which leaves no files behind, even after a crash."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"set_sharing_strategy: expected one of {sorted(get_all_sharing_strategies())}, got {new_strategy!r}")
    _strategy = new_strategy
