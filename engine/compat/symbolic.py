"""`SymInt`, `SymFloat`, `SymBool`: placeholders for PyTorch's symbolic values; sizes here are Python ints."""

from __future__ import annotations

from typing import Any

__all__ = ["SymBool", "SymFloat", "SymInt"]


class _Symbol:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{cls.__name__}: this engine traces no programs, so it has no symbols for their numbers")


class SymInt(_Symbol):
    """Raises NotImplementedError; `isinstance(n, SymInt)` is always False."""


class SymFloat(_Symbol):
    """Like `SymInt`, for floats."""


class SymBool(_Symbol):
    """Like `SymInt`, for bools."""
