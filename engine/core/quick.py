"""The dtypes for which ops take the fast call paths, and a switch that sends every op through the general path."""

from __future__ import annotations

import threading

from ..base.dtypes import F32, F64

DTYPES = {F32, F64}  # empty while every op must take the general path, for autocast or to record nodes
_held, _lock = 0, threading.Lock()


def hold() -> None:
    """Send every op of every thread through the general path, until `release` has been called as often as `hold`."""
    global _held
    with _lock:
        _held += 1
        DTYPES.clear()


def release() -> None:
    """Undo one `hold`."""
    global _held
    with _lock:
        _held -= 1
        if not _held:
            DTYPES.update((F32, F64))
