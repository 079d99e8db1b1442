"""`engine.cuda.nvtx`: markers and ranges for NVIDIA's profilers, through CuPy. No-ops without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core import devices
from .device import runtime

_depth = 0


def mark(msg: str) -> None:
    """Mark the current moment."""
    if devices.cuda_available():
        runtime().mark(msg)


def range_push(msg: str) -> int:
    """Start a nested range and return its depth, starting at 0."""
    global _depth
    if devices.cuda_available():
        runtime().range_push(msg)
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """End the innermost range and return the number of ranges still open."""
    global _depth
    if devices.cuda_available():
        runtime().range_pop()
    _depth = max(_depth - 1, 0)
    return _depth


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Mark a `with` block as a range; `msg` is formatted with the further arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
