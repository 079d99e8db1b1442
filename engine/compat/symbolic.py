"""`SymInt`, `SymFloat`, `SymBool`: PyTorch's numbers of a traced program. There are none: sizes here are Python's numbers."""

from __future__ import annotations

from typing import Any

__all__ = ["SymBool", "SymFloat", "SymInt"]


class _Symbol:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{cls.__name__}: this engine traces no programs, so it has no symbols for their numbers")


class SymInt(_Symbol):
    """Of this class there are no numbers: `isinstance(n, SymInt)` is False of every one, and none can be made."""


class SymFloat(_Symbol):
    """As `SymInt`, of floats."""


class SymBool(_Symbol):
    """As `SymInt`, of bools."""
