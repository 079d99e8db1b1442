"""CUDA graphs: a program's own recordings of a GPU's work are refused; as PyTorch without CUDA, the names are there to be named."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["CUDAGraph", "graph", "make_graphed_callables"]


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"{name}: this engine records no graphs of a GPU's work for programs; run the calls as they are")


class CUDAGraph:
    """RuntimeError when one is made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("CUDAGraph")


class graph:
    """RuntimeError when one is made: it would record the block."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("graph")


def make_graphed_callables(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: see `CUDAGraph`."""
    _refuse("make_graphed_callables")
