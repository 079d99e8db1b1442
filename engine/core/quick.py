"""The dtypes that take the fast path of calls, and a switch that sends every op down the slow path."""

from __future__ import annotations

import threading

from ..base.dtypes import F32, F64

DTYPES = {F32, F64}  # empty while every op must be seen: by `noting`, or by autocast
_held, _lock = 0, threading.Lock()


def hold() -> None:
    """Send every op of every thread down the slow path, until `release` has been called as many times."""
    global _held
    with _lock:
        _held += 1
        DTYPES.clear()


def release() -> None:
    """End one `hold`."""
    global _held
    with _lock:
        _held -= 1
        if not _held:
            DTYPES.update((F32, F64))
