"""`engine.fx`: `wrap`, and a placeholder `GraphModule`; there is no symbolic tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn import Module


class GraphModule(Module):
    """Raises NotImplementedError; `isinstance(x, GraphModule)` is always False."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("GraphModule: this engine has no symbolic traces; modules run as they are written")


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Return the function, or its name, unchanged. Raises RuntimeError for anything else."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, got {type(fn_or_name).__name__}"
        )
    return fn_or_name
