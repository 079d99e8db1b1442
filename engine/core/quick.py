"""The element types that take the quick ways of the call path, and how to have every op take the slow way for a while."""

from __future__ import annotations

import threading

from ..base.dtypes import F32, F64

DTYPES = {F32, F64}  # empty while somebody is to see every op: who notes nodes, an autocast
_held, _lock = 0, threading.Lock()


def hold() -> None:
    """From now on every op of every thread takes the slow way, until as many calls of `release` have come."""
    global _held
    with _lock:
        _held += 1
        DTYPES.clear()


def release() -> None:
    """The end of one `hold`."""
    global _held
    with _lock:
        _held -= 1
        if not _held:
            DTYPES.update((F32, F64))
