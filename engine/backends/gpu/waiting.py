"""Where the host waits for the GPU: the observer is notified of each wait, and PyTorch's debug mode warns of it or refuses it.

Whatever makes the host wait, such as `x.item()`, a boolean mask or a failing factorization, reads an array by one of the methods in
`_READ`, or waits for a stream or an event. These are wrapped once, in CuPy's own classes, so that no op and no method of Tensor has to.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

import cupy

from ...base import errors, observe

_CONVERSIONS = ("bool", "int", "float", "complex", "repr", "str", "format", "reduce")
_READ = ("get", "item", "tolist", "tobytes", *[f"__{name}__" for name in _CONVERSIONS])
_thread = threading.local()  # `inside`: whether this thread is in a wait; CuPy's methods call each other
_mode = 0
after: list[Callable[[], None]] = []  # called after each wait; may raise


def set_mode(mode: int) -> None:
    """Ignore (0), warn of (1) or refuse (2) the waits of all threads."""
    global _mode
    _mode = mode


def mode() -> int:
    """Return the debug mode: 0, 1 or 2."""
    return _mode


def waits(what: str, hidden: bool = True, wanted: Callable[..., bool] | None = None) -> Callable[[Callable], Callable]:
    """Decorate a function in which the host waits; `what` names it to the observer.

    The debug mode is about `hidden` waits, not about those that a program asks for. `wanted` tells from the arguments whether it waits.
    """

    def decorate(function: Callable) -> Callable:
        function = getattr(function, "__wrapped__", function)  # CuPy's classes outlive this module where it is imported again

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if getattr(_thread, "inside", False) or wanted is not None and not wanted(*args, **kwargs):
                return function(*args, **kwargs)
            if _mode and hidden and not errors.in_tool():
                _declare()
            _thread.inside, begun = True, perf_counter()
            try:
                result = function(*args, **kwargs)
            finally:
                _thread.inside = False
            seconds = perf_counter() - begun
            if (watcher := observe.watcher()) is not None:
                watcher.waited(what, seconds)
            for look in after:
                look()
            return result

        return call

    return decorate


def _declare() -> None:
    if _mode == 2:
        raise RuntimeError("called a synchronizing CUDA operation")
    errors.warn("called a synchronizing CUDA operation")


def _blocks(array: Any, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> bool:
    return blocking and array.size > 0


def install() -> None:
    """Wrap the methods of CuPy's classes that wait. Errors and warnings name no lines of CuPy."""
    errors.hide(os.path.dirname(str(cupy.__file__)) + os.sep, tool=False)
    for name in _READ:
        if hasattr(cupy.ndarray, name):
            setattr(cupy.ndarray, name, waits(name.strip("_"), wanted=_blocks if name == "get" else None)(getattr(cupy.ndarray, name)))
    cupy.cuda.Stream.synchronize = waits("synchronize")(cupy.cuda.Stream.synchronize)
    cupy.cuda.Event.synchronize = waits("synchronize", hidden=False)(cupy.cuda.Event.synchronize)
