"""Inspect function frames without side effects: reading a frame's `f_locals` could otherwise keep the values alive."""

from __future__ import annotations

import inspect
import os
import site
import sys
import sysconfig
from types import FrameType
from typing import Any

import engine
from engine.base import errors
from engine.core import tape

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HIDDEN = os.path.dirname(os.path.abspath(engine.__file__)) + os.sep, _OWN + os.sep
errors.hide(HIDDEN[1])
at_user_line = errors.at_user_line  # the workbench imports it from here, where its own lines are hidden
# The packages that run the cells: references to user objects in them are described by name.
HOSTS = ("IPython", "ipykernel", "asyncio", "tornado", "zmq", "traitlets", "threading", "jupyter_client", "runpy", "selectors")
_PASS = tape.backward_steps.__code__
_LIBRARIES = [path for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")]
_INSTALLED = tuple({os.path.realpath(path) + os.sep for path in (*_LIBRARIES, *site.getsitepackages())})


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python, an installed package or the workbench rather than to the user."""
    path = os.path.realpath(file)
    return path.startswith(_INSTALLED) or path.startswith(HIDDEN)


def is_host(frame: FrameType) -> bool:
    """Whether the frame belongs to the workbench, the engine, or the packages that run the notebook."""
    return frame.f_code.co_filename.startswith(HIDDEN) or frame.f_globals.get("__name__", "").partition(".")[0] in HOSTS


def passes_around(frame: FrameType | None) -> int:
    """The number of backward passes running in these frames: a step can begin another pass, as in checkpoint or in a hook."""
    found = 0
    while frame is not None:
        found += frame.f_code is _PASS
        frame = frame.f_back
    return found


def is_function(frame: FrameType) -> bool:
    """Whether the frame is a function's. A module's or cell's variables are in a namespace instead."""
    return bool(frame.f_code.co_flags & inspect.CO_NEWLOCALS)


def called(frame: FrameType) -> str:
    """The function's name with parentheses, such as `train()`."""
    return f"{frame.f_code.co_name}()"


def variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The local variables of a function's frame, or the namespace of a cell's or module's frame.

    Before Python 3.13, reading them makes a dict that stays with the frame and keeps its values alive. It is cleared, unless other code,
    such as a call of `locals()`, also holds it.
    """
    shown = frame.f_locals
    found = list(shown.items())
    if is_function(frame) and sys.version_info < (3, 13) and sys.getrefcount(shown) <= 3:  # the frame, this variable, the call
        shown.clear()
    return found
