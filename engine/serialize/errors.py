"""What is raised about a file that cannot be loaded."""

from __future__ import annotations

import pickle
from typing import Any


class CheckpointError(RuntimeError, pickle.UnpicklingError):
    """A file that is not a checkpoint, a damaged one, or one that asks for more than may be built. The message says which.

    PyTorch raises RuntimeError for a damaged archive and pickle.UnpicklingError for a refused pickle: this is both.
    """


def told(x: Any) -> str:
    """A value of a file in a message. Never its own `repr`: a pair of pairs of pairs takes a few bytes in a pickle and forever to print."""
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
    """A file without a single byte: PyTorch raises EOFError."""
