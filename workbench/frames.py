"""Frames of functions, looked into without leaving a trace: a frame's `f_locals` would otherwise keep what it has shown alive."""

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

HIDDEN = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (engine.__file__, __file__))
errors.hide(HIDDEN[1])
at_user_line = errors.at_user_line  # for the workbench to import from here, where its own lines are hidden
# Who runs the cells: what they hold of the user's is asked of them by name.
HOSTS = ("IPython", "ipykernel", "asyncio", "tornado", "zmq", "traitlets", "threading", "jupyter_client", "runpy", "selectors")
_PASS = tape.backward_steps.__code__
_LIBRARIES = [path for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")]
_INSTALLED = tuple({os.path.realpath(path) + os.sep for path in (*_LIBRARIES, *site.getsitepackages())})


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package (or to the workbench), not to the user."""
    path = os.path.realpath(file)
    return path.startswith(_INSTALLED) or path.startswith(HIDDEN)


def is_host(frame: FrameType) -> bool:
    """Whether it is the workbench's, the engine's, or of what runs the notebook."""
    return frame.f_code.co_filename.startswith(HIDDEN) or frame.f_globals.get("__name__", "").partition(".")[0] in HOSTS


def passes_around(frame: FrameType | None) -> int:
    """How many backward passes are running here: of the inner ones each was begun by a step of another, as by checkpoint's or a hook's."""
    found = 0
    while frame is not None:
        found += frame.f_code is _PASS
        frame = frame.f_back
    return found


def is_function(frame: FrameType) -> bool:
    """Whether it is a function's and not a module's or a cell's, whose variables are in a namespace."""
    return bool(frame.f_code.co_flags & inspect.CO_NEWLOCALS)


def called(frame: FrameType) -> str:
    """The function's name: "train()"."""
    return f"{frame.f_code.co_name}()"


def variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The local variables of a function's frame; of a cell's or module's, its namespace.

    Before Python 3.13, reading them makes a dict that stays with the frame and would keep what is in it alive. It is emptied again, unless
    somebody else has it: code that has called `locals()`.
    """
    shown = frame.f_locals
    found = list(shown.items())
    if is_function(frame) and sys.version_info < (3, 13) and sys.getrefcount(shown) <= 3:  # the frame, this variable, the call
        shown.clear()
    return found
