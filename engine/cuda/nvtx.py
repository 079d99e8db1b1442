"""`engine.cuda.nvtx`: names for stretches of time in NVIDIA's profilers, through CuPy. Without a GPU nothing is marked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core import devices
from .device import runtime

_depth = 0


def mark(msg: str) -> None:
    """Mark this moment."""
    if devices.cuda_available():
        runtime().mark(msg)


def range_push(msg: str) -> int:
    """Begin a stretch inside those that are open; how many were."""
    global _depth
    if devices.cuda_available():
        runtime().range_push(msg)
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """End the stretch that was begun last; how many are open then."""
    global _depth
    if devices.cuda_available():
        runtime().range_pop()
    _depth = max(_depth - 1, 0)
    return _depth


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A stretch as long as the `with` block; `msg` is formatted with the further arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
