"""The engine's exceptions, and the parts of its messages: the op, the rule, each operand's shape, and the user's line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NoReturn

_hidden: tuple[str, ...] = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)  # folders with code that is not the user's


_tools: tuple[str, ...] = ()  # those of them whose code calls the engine on its own account


def hide(folder: str, tool: bool = True) -> None:
    """Mark a folder (a path that ends in a separator) as code of which errors name no lines: a tool that calls the engine, or a library."""
    global _hidden, _tools
    if folder not in _hidden:
        _hidden = (*_hidden, folder)
        _tools = (*_tools, folder) if tool else _tools
        _in_hidden.clear()


class _InHidden(dict[str, bool]):
    """Whether a file is in a hidden folder, by its name. Every write in place asks, for each frame down to the user's."""

    def __missing__(self, name: str) -> bool:
        found = self[name] = name.startswith(_hidden)
        return found


_in_hidden = _InHidden()


def hides(code: CodeType | str) -> bool:
    """Return whether code, or a file, is the engine's, a tool's or a hidden library's."""
    return _in_hidden[code if isinstance(code, str) else code.co_filename]


def in_tool() -> bool:
    """Return whether the engine runs for a tool, such as the workbench, and not for the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _in_hidden[frame.f_code.co_filename]:
        if frame.f_code.co_filename.startswith(_tools):
            return True
        frame = frame.f_back
    return False


def user_frame(skip: int = 1) -> FrameType | None:
    """Return the innermost frame outside the engine and the hidden folders, which runs the user's line.

    The caller may `skip` frames that are the engine's: Python makes an object of each frame that is looked at.
    """
    frame: FrameType | None = sys._getframe(skip)
    while frame is not None and _in_hidden[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def where(code: Any, line: int) -> str:
    """Return `train.py, line 12`, or `line 12 of the cell` for code of a notebook."""
    name = os.path.basename(code.co_filename)
    if name.startswith("<") or "ipykernel_" in code.co_filename or "<ipython-input" in code.co_filename:
        return f"line {line} of the cell"
    return f"{name}, line {line}"


def user_line() -> str:
    """Return the user's current line in words; "" if no user code is running."""
    frame = user_frame()
    return where(frame.f_code, frame.f_lineno) if frame is not None else ""


def at_user_line() -> str:
    """Return ` (line 3 of the cell)`, for the end of a message; "" if no user code is running."""
    line = user_line()
    return f" ({line})" if line else ""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Emit a warning that points at the user's line, not at a line of the engine."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _in_hidden[frame.f_code.co_filename]:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def describe(x: Any) -> str:
    """Describe an operand for an error message: a tensor's shape and dtype, the value of a number, string or None, else the type."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{tuple(shape)} {getattr(dtype, 'name', dtype)}"
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return repr(x)[:60]
    return f"a {type(x).__name__}"


# What NumPy raises where the program wants it to, by `numpy.seterr` or `warnings.simplefilter("error")`. Ops compute on, as PyTorch's do.
FLOATING = (FloatingPointError, RuntimeWarning)


class GraphFreedError(RuntimeError):
    """Raised by a backward pass through a node whose saved arrays have been freed."""


class SpoiledError(RuntimeError):
    """Raised if a saved array was overwritten in place before the backward pass used it; `write` records that write."""

    write: Any = None


class LinAlgError(RuntimeError):
    """Raised for a matrix without a result: singular, not positive definite, or not finite."""


class OutOfMemoryError(RuntimeError, MemoryError):
    """Raised if memory runs out, on a GPU or on the CPU: a RuntimeError as in PyTorch, and Python's MemoryError."""


# (array) -> its name and the line that made it, as "h, made in train.py, line 12", or "". A tool sets it, and the OutOfMemoryError of a GPU
# uses it.
origin: Callable[[Any], str] | None = None


def out_of_memory(name: str, error: MemoryError) -> NoReturn:
    """Raise a MemoryError of the function `name` as an OutOfMemoryError, unless it is one already."""
    try:
        if isinstance(error, OutOfMemoryError):
            raise error
        raise OutOfMemoryError(f"{name}: out of memory: {error}") from error
    finally:  # an error that this frame refers to is a reference cycle, which would keep the arrays of all frames
        error = None  # type: ignore[assignment]


class Refused(Exception):
    """Raised inside an op's `forward` with the broken rule as message; the call path turns it into an error of type `kind`."""

    def __init__(self, rule: str, kind: type[Exception] = RuntimeError):
        super().__init__(rule)
        self.kind = kind
