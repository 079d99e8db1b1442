"""Calls that are not dispatched to `__torch_function__`, in this thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Disabled(threading.local):
    on = False


disabled = _Disabled()


class DisableTorchFunctionSubclass:
    """Context manager that disables `__torch_function__` of subclasses in this thread."""

    def __enter__(self) -> None:
        self._before, disabled.on = disabled.on, True

    def __exit__(self, *error: object) -> None:
        disabled.on = self._before


def disabled_torch_function(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """A `__torch_function__` that disables the dispatch: the call runs, and its results are plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs or {})
