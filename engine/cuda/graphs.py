"""CUDA graphs: not supported; the names exist so that programs can import them, and using them raises RuntimeError."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["CUDAGraph", "graph", "make_graphed_callables"]


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"{name}: this engine records no graphs of a GPU's work for programs; run the calls as they are")


class CUDAGraph:
    """Raises RuntimeError."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("CUDAGraph")


class graph:
    """Raises RuntimeError: a block cannot be recorded."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("graph")


def make_graphed_callables(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise RuntimeError; see `CUDAGraph`."""
    _refuse("make_graphed_callables")
