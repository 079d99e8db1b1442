"""`engine.futures`: a `Future` for results computed by other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Future(Generic[_T]):
    """A result that another thread sets with `set_result` or `set_exception`; subscriptable, as in `Future[Tensor]`."""

    def __init__(self, *, devices: Any = None) -> None:
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable] = []

    def done(self) -> bool:
        """Return whether a result or an error has been set."""
        return self._ended.is_set()

    def wait(self) -> Any:
        """Block until completion, then return the result or raise the error."""
        self._ended.wait()
        return self.value()

    def value(self) -> Any:
        """Return the result or raise the error. Raises RuntimeError if the future has not completed."""
        if not self.done():
            raise RuntimeError("value() should only be called after the Future has completed")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: Any) -> None:
        """Set the result. Raises RuntimeError if the future has already completed."""
        self._end(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error instead of a result. Raises RuntimeError if the future has already completed."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._end(None, result)

    def _end(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once.")
            self._value, self._error = value, error
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future], None]) -> None:
        """Call `callback(future)` on completion, or immediately if the future has completed."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a future for the result of `callback(future)`, which is called on completion."""
        out = Future()

        def call(ended: Future) -> None:
            try:
                out.set_result(callback(ended))
            except Exception as error:
                out.set_exception(error)

        self.add_done_callback(call)
        return out


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """Wait for all futures in order and return their results, or raise the first error."""
    return [future.wait() for future in futures]


def collect_all(futures: Sequence[Future]) -> Future:
    """Return a future that completes with the list of these futures once all have completed."""
    out, lock, left = Future(), threading.Lock(), len(futures)

    def count(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            out.set_result(list(futures))

    if not futures:
        out.set_result([])
    for future in futures:
        future.add_done_callback(count)
    return out
