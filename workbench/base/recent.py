"""Weak collections of objects still in use, such as recordings and sessions, in the order in which they were made."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class Recent(Generic[T]):
    """Weakly held objects, oldest first.

    Unlike a WeakSet's, the references have no callback: a callback is Python code that runs wherever the object dies, and an interrupt by
    the user would be lost there.
    """

    def __init__(self) -> None:
        self._refs: list[ref[T]] = []
        self._lock = Lock()

    def add(self, one: T) -> None:
        with self._lock:
            self._refs = [*(kept for kept in self._refs if kept() is not None), ref(one)]

    def forget(self, one: T) -> None:
        """Remove an object; a no-op if it was never added."""
        with self._lock:
            self._refs = [kept for kept in self._refs if kept() is not one]

    def __iter__(self) -> Iterator[T]:
        """Iterate from oldest to newest."""
        return (one for kept in self._refs if (one := kept()) is not None)

    def __reversed__(self) -> Iterator[T]:
        return (one for kept in reversed(self._refs) if (one := kept()) is not None)
