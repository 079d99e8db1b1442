"""`engine.futures`: results that are waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Future(Generic[_T]):
    """A result that some thread sets later, with `set_result` or `set_exception`. `Future[Tensor]` says of what."""

    def __init__(self, *, devices: Any = None) -> None:
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable] = []

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._ended.is_set()

    def wait(self) -> Any:
        """The result, once it is there; the error is raised."""
        self._ended.wait()
        return self.value()

    def value(self) -> Any:
        """The result, which must be there: else RuntimeError. The error is raised."""
        if not self.done():
            raise RuntimeError("value() should only be called after the Future has completed")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: Any) -> None:
        """Give the result. RuntimeError when there is one."""
        self._end(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error in place of a result. RuntimeError when there is one."""
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
        """Call `callback(future)` when there is a result; at once when there is one already."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future of what `callback(future)` returns, called when there is a result."""
        out = Future()

        def call(ended: Future) -> None:
            try:
                out.set_result(callback(ended))
            except Exception as error:
                out.set_exception(error)

        self.add_done_callback(call)
        return out


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The results of all, waited for in order; the first error is raised."""
    return [future.wait() for future in futures]


def collect_all(futures: Sequence[Future]) -> Future:
    """The future of the list of these futures, when every one has ended."""
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
