"""`engine.cuda.nvtx`: markers and ranges for NVIDIA's profilers, through CuPy. No-ops without a GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..core import devices
from .device import backend

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_depth = threading.local()


def mark(msg: str) -> None:
    """Mark the current moment."""
    if devices.cuda_available():
        backend().nvtx().Mark(msg)


def range_push(msg: str) -> int:
    """Start a nested range and return its depth, starting at 0."""
    if devices.cuda_available():
        backend().nvtx().RangePush(msg)
    _depth.n = getattr(_depth, "n", 0) + 1
    return _depth.n - 1


def range_pop() -> int:
    """End the innermost range and return the number of ranges still open."""
    if devices.cuda_available():
        backend().nvtx().RangePop()
    _depth.n = max(getattr(_depth, "n", 0) - 1, 0)
    return _depth.n


def range_start(msg: str) -> int:
    """Start a range that any thread can end, and return its number; 0 without a GPU."""
    return int(backend().nvtx().RangeStart(msg)) if devices.cuda_available() else 0


def range_end(range_id: int) -> None:
    """End a range of `range_start`."""
    if devices.cuda_available():
        backend().nvtx().RangeEnd(range_id)


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Mark a `with` block as a range; `msg` is formatted with the further arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
