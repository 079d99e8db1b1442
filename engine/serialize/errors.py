"""Exceptions for files that cannot be loaded."""

from __future__ import annotations

import pickle
from typing import Any


class CheckpointError(RuntimeError, pickle.UnpicklingError):
    """Raised for a file that is not a checkpoint, is damaged, or needs more than is allowed; the message says which.

    PyTorch raises RuntimeError for a damaged archive and pickle.UnpicklingError for a refused pickle; this class is both.
    """


def told(x: Any) -> str:
    """Format a value from a file for an error message. Its `repr` is not used: a few bytes of nested pairs can take forever to print."""
    if isinstance(x, (str, bytes)):
        return repr(x[:60])
    if isinstance(x, int):
        return repr(x) if x.bit_length() < 200 else "an int"
    if x is None or isinstance(x, (float, complex)):
        return repr(x)
    if isinstance(x, (tuple, list)) and len(x) <= 64 and all(isinstance(part, (int, float, str)) for part in x):
        return f"({', '.join(map(told, x))})"
    return f"the class {x.__qualname__}" if isinstance(x, type) else f"a {type(x).__name__}"


class EmptyFileError(CheckpointError, EOFError):
    """Raised for an empty file; PyTorch raises EOFError."""
