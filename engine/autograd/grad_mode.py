"""Whether ops are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`; each a context manager and a decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..tape import mode


class _GradMode:
    """A context manager that is a decorator too, of generator functions as well."""

    _want = False

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(mode.grad)
        mode.grad = self._want

    def __exit__(self, *exc: object) -> None:
        mode.grad = self._before.pop()

    def _clone(self) -> _GradMode:
        return type(self)()

    def __call__(self, fn: Callable) -> Callable:
        if inspect.isclass(fn):
            raise TypeError(f"{type(self).__name__} decorates functions, not the class {fn.__name__}")
        if inspect.isgeneratorfunction(fn):

            @functools.wraps(fn)
            def steps(*args: Any, **kwargs: Any) -> Any:
                generator = fn(*args, **kwargs)
                resume, given = generator.send, (None,)
                while True:
                    try:
                        with self._clone():
                            item = resume(*given)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        resume, given = generator.send, ((yield item),)
                    except GeneratorExit:
                        with self._clone():
                            generator.close()
                        raise
                    except BaseException as error:  # thrown in by the caller: the function decides what becomes of it
                        resume, given = generator.throw, (error,)

            return steps

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._clone():
                return fn(*args, **kwargs)

        return call


class no_grad(_GradMode):
    """Nothing inside is recorded: results do not require grad. Works as `with no_grad():`, `@no_grad()` and `@no_grad`."""

    def __new__(cls, fn: Callable | None = None) -> Any:
        made = object.__new__(cls)
        if fn is None:
            return made
        made.__init__()
        return made(fn)

    def __init__(self, fn: Callable | None = None) -> None:
        super().__init__()


class enable_grad(no_grad):
    """Ops inside are recorded again, within a `no_grad` block."""

    _want = True


class set_grad_enabled(_GradMode):
    """Recording on or off: at once when called, and put back at the end when used as a context manager."""

    def __init__(self, mode_: bool) -> None:
        super().__init__()
        self._want = bool(mode_)
        self._outside = mode.grad
        mode.grad = self._want

    def __enter__(self) -> None:
        self._before.append(self._outside)
        mode.grad = self._want

    def __call__(self, fn: Callable) -> Callable:
        mode.grad = self._outside
        return super().__call__(fn)

    def _clone(self) -> _GradMode:
        return set_grad_enabled(self._want)


class inference_mode(_GradMode):
    """`no_grad` for code whose results will never meet autograd."""

    def __init__(self, mode_: bool = True) -> None:
        super().__init__()
        self._on = mode_

    def __enter__(self) -> None:
        self._before.append(mode.grad)
        self._was = mode.inference
        mode.grad, mode.inference = not self._on, self._on

    def __exit__(self, *exc: object) -> None:
        mode.grad, mode.inference = self._before.pop(), self._was

    def _clone(self) -> _GradMode:
        return inference_mode(self._on)


def is_grad_enabled() -> bool:
    """Whether ops are being recorded in this thread."""
    return mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return mode.inference
