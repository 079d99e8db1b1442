"""What somebody still looks at, in the order in which it was made: recordings, sessions."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class Recent(Generic[T]):
    """Weakly held objects, oldest first.

    The references have no callback, as those of a WeakSet do: a callback is Python code that runs wherever the object dies, and
    there an interrupt by the user would be lost.
    """

    def __init__(self) -> None:
        self._refs: list[ref[T]] = []
        self._lock = Lock()

    def add(self, one: T) -> None:
        with self._lock:
            self._refs = [*(kept for kept in self._refs if kept() is not None), ref(one)]

    def forget(self, one: T) -> None:
        """It is not to be found here any more; nothing happens where it never was."""
        with self._lock:
            self._refs = [kept for kept in self._refs if kept() is not one]

    def __iter__(self) -> Iterator[T]:
        """Oldest first."""
        return (one for kept in self._refs if (one := kept()) is not None)

    def __reversed__(self) -> Iterator[T]:
        return (one for kept in reversed(self._refs) if (one := kept()) is not None)
