"""`engine.fx`: `wrap`, and placeholders for the classes of symbolic tracing, of which there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn import Module

__all__ = ["CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "symbolic_trace", "wrap"]


class _Traced:
    """Base of the placeholders: a library may name them, derive from them and test for them, but not create one."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(f"{type(self).__name__}: this engine has no symbolic traces; modules run as they are written")


class GraphModule(_Traced, Module):
    """Raises NotImplementedError; `isinstance(x, GraphModule)` is always False."""


class Graph(_Traced):
    """Raises NotImplementedError, as do the nodes, the code and the interpreters of a graph."""


class Node(_Traced):
    """Raises NotImplementedError; `isinstance(x, Node)` is always False."""


class Proxy(_Traced):
    """Raises NotImplementedError; `isinstance(x, Proxy)` is always False: a program's values are tensors."""


class Tracer(_Traced):
    """Raises NotImplementedError, also for a derived class."""


class CodeGen(_Traced):
    """Raises NotImplementedError."""


class Interpreter(_Traced):
    """Raises NotImplementedError, also for a derived class."""


class Transformer(Interpreter):
    """Raises NotImplementedError, also for a derived class."""


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Raise NotImplementedError: there is no symbolic tracing."""
    return GraphModule(root)


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Return the function, or its name, unchanged. Raises RuntimeError for anything else."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, got {type(fn_or_name).__name__}"
        )
    return fn_or_name
