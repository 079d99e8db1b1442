"""`engine.cpu`: the CPU with the interface of `engine.cuda`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LATER = frozenset({"amp"})


class Stream:
    """The CPU's single stream, which runs work synchronously."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: all earlier work is complete."""


_stream = Stream()


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is only one CPU device."""


def synchronize(device: Any = None) -> None:
    """Do nothing: all work is complete when a call returns."""


def current_stream(device: Any = None) -> Stream:
    """Return the CPU's only stream."""
    return _stream


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Do nothing: there is only one stream."""
    yield
