"""`engine.cpu`: the CPU, asked in the way in which a GPU is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LATER = frozenset({"amp"})


class Stream:
    """Work is done in the order in which it is given; there is one stream."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing is waited for: the work before is done."""


_stream = Stream()


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one device: nothing changes."""


def synchronize(device: Any = None) -> None:
    """All work is done when a call returns: there is nothing to wait for."""


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return _stream


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Work goes into the one stream."""
    yield
