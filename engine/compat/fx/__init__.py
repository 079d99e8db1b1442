"""`engine.fx`: what libraries ask of symbolic traces: `wrap`, and whether a module came out of one. There is no symbolic trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn import Module


class GraphModule(Module):
    """No module here is one, and making one is a NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("GraphModule: this engine has no symbolic traces; modules run as they are written")


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """The function, or its name, as it is. RuntimeError for anything else."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, got {type(fn_or_name).__name__}"
        )
    return fn_or_name
