"""What the engine says when it refuses: which op, which rule, every operand's shape, and the user's own line."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Any, NoReturn

_hidden: tuple[str, ...] = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)  # folders with code that is not the user's


def hide(folder: str) -> None:
    """Code below this folder (its path ends in a separator) is a tool's that calls the engine for the user: no error names its lines."""
    global _hidden
    if folder not in _hidden:
        _hidden = (*_hidden, folder)


def user_frame() -> FrameType | None:
    """The innermost frame that runs code from outside the engine and the tools that were hidden: the user's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_hidden):
        frame = frame.f_back
    return frame


def where(code: Any, line: int) -> str:
    """`train.py, line 12`, or `line 12 of the cell` for code typed into a notebook."""
    name = os.path.basename(code.co_filename)
    if name.startswith("<") or "ipykernel_" in code.co_filename or "<ipython-input" in code.co_filename:
        return f"line {line} of the cell"
    return f"{name}, line {line}"


def user_line() -> str:
    """Where the user's code stands now, in words; "" when there is none."""
    frame = user_frame()
    return where(frame.f_code, frame.f_lineno) if frame is not None else ""


def at_user_line() -> str:
    """` (line 3 of the cell)`, for the end of a message; "" when no user code is running."""
    line = user_line()
    return f" ({line})" if line else ""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning that points at the user's line, however many of the engine's functions stand between."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_hidden):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def describe(x: Any) -> str:
    """An operand in an error message: the shape and dtype of a tensor, the value of anything small, else its type."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{tuple(shape)} {getattr(dtype, 'name', dtype)}"
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return repr(x)[:60]
    return f"a {type(x).__name__}"


class GraphFreedError(RuntimeError):
    """Backward was asked to pass through a node whose saved arrays are gone."""


class SpoiledError(RuntimeError):
    """A saved array was overwritten in place before backward could use it; `write` tells by what."""

    write: Any = None


class LinAlgError(RuntimeError):
    """A matrix for which the result does not exist: singular, not positive definite, not finite."""


class OutOfMemoryError(RuntimeError, MemoryError):
    """No memory is left, on a GPU or for an op on the CPU: a RuntimeError as in PyTorch, and what Python has for it."""


def out_of_memory(name: str, error: MemoryError) -> NoReturn:
    """Raise what `name` met as an OutOfMemoryError, which it may be already."""
    if isinstance(error, OutOfMemoryError):
        raise error
    raise OutOfMemoryError(f"{name}: out of memory: {error}") from error


class Refused(Exception):
    """Raised inside an op's `forward`: the rule that was broken, in words. The call path turns it into PyTorch's error type."""

    def __init__(self, rule: str, kind: type[Exception] = RuntimeError):
        super().__init__(rule)
        self.kind = kind
