"""Release objects kept for convenience: arrays of recordings, the last error's local variables, a notebook's outputs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..recording.recording import recent

_ways: dict[str, list[Callable[[], None]]] = {"recordings": [], "error": [], "outputs": [], "view": []}


def add(what: str, way: Callable[[], None]) -> None:
    """Register a function that releases `what`; registering it twice is a no-op."""
    if way not in _ways[what]:
        _ways[what].append(way)


def release(*what: str) -> None:
    """Release "recordings", "error", "outputs" or "view"; all of them by default. Raises ValueError for any other word."""
    for word in what:
        if word not in _ways:
            raise ValueError(f"wb.release takes some of {', '.join(map(repr, _ways))}, got {word!r}")
    for word in what or tuple(_ways):
        for way in _ways[word]:
            way()


def clear(trace: Any) -> None:
    """Clear the frames of a traceback. Running frames are skipped."""
    at: TracebackType | None = trace if isinstance(trace, TracebackType) else None
    while at is not None:
        try:
            at.tb_frame.clear()
        except RuntimeError:  # still running
            pass
        else:
            _ = at.tb_frame.f_locals  # before Python 3.13, reading refreshes, and so empties, the dict of locals read earlier
        at = at.tb_next


def _recordings() -> None:
    for recording in recent:
        recording.release()


def _last_error() -> None:
    clear(getattr(sys, "last_traceback", None))
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    seen: set[int] = set()
    while isinstance(error, BaseException) and id(error) not in seen:
        seen.add(id(error))
        clear(error.__traceback__)
        error = error.__cause__ or error.__context__


add("recordings", _recordings)
add("error", _last_error)
