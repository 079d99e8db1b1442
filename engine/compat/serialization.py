"""`engine.serialization`: PyTorch's module for saving and loading, and for the globals that a checkpoint may use."""

import os
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from ..serialize import add_safe_globals, clear_safe_globals, get_safe_globals, load, safe_globals, save
from ..serialize.names import get_unsafe_globals_in_checkpoint
from ..serialize.plain import get_layout as _get_layout  # noqa: F401

DEFAULT_PROTOCOL = 2  # of pickles: PyTorch reads no later protocol with weights_only
FILE_LIKE: TypeAlias = str | os.PathLike | IO[bytes]
MAP_LOCATION: TypeAlias = Callable | str | dict[str, str] | Any | None

__all__ = [
    "DEFAULT_PROTOCOL", "FILE_LIKE", "MAP_LOCATION",
    "add_safe_globals", "clear_safe_globals", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "save",
]  # fmt: skip
