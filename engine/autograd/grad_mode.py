"""Context managers and decorators that switch recording: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..core import tape


class _GradMode:
    """A context manager that also decorates functions and generator functions, with or without parentheses."""

    _want = False

    def __new__(cls, fn: Any = None, **kwargs: Any) -> Any:
        return cls()(fn) if callable(fn) else object.__new__(cls)

    def __init__(self, fn: Callable | None = None) -> None:
        self._before: list = []

    def __enter__(self) -> None:
        self._before.append(tape.mode.grad)
        tape.mode.grad = self._want

    def __exit__(self, *exc: object) -> None:
        tape.mode.grad = self._before[-1]  # first, because an interrupt may arrive after any call
        self._before.pop()

    def clone(self) -> _GradMode:
        """Return a new instance of the same kind."""
        return self._clone()

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
                    except BaseException as error:  # thrown in by the caller: the function decides how to handle it
                        resume, given = generator.throw, (error,)

            return steps

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._clone():
                return fn(*args, **kwargs)

        return call


class no_grad(_GradMode):
    """Disable recording: results do not require grad. Use as `with no_grad():`, `@no_grad()` or `@no_grad`."""


class enable_grad(no_grad):
    """Enable recording again inside a `no_grad` block."""

    _want = True


class set_grad_enabled(_GradMode):
    """Switch recording on or off, immediately when called; as a context manager, restore the previous mode on exit."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._want = bool(mode)
        self._outside = tape.mode.grad
        tape.mode.grad = self._want

    def __enter__(self) -> None:
        self._before.append(self._outside)
        tape.mode.grad = self._want

    def __call__(self, fn: Callable) -> Callable:
        tape.mode.grad = self._outside
        return super().__call__(fn)

    def _clone(self) -> _GradMode:
        return set_grad_enabled(self._want)


class inference_mode(_GradMode):
    """`no_grad` for code whose results never take part in autograd."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._on = mode

    def __enter__(self) -> None:
        self._before.append((tape.mode.grad, tape.mode.inference))
        tape.mode.grad, tape.mode.inference = not self._on, self._on

    def __exit__(self, *exc: object) -> None:
        tape.mode.grad, tape.mode.inference = self._before[-1]
        self._before.pop()

    def _clone(self) -> _GradMode:
        return inference_mode(self._on)


class set_multithreading_enabled(_GradMode):
    """Accepted for PyTorch compatibility, without effect: every backward pass runs in its caller's thread."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._want = bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass

    def _clone(self) -> _GradMode:
        return set_multithreading_enabled(self._want)


def is_grad_enabled() -> bool:
    """Return whether ops are recorded in this thread."""
    return tape.mode.grad


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is in `inference_mode`."""
    return tape.mode.inference
