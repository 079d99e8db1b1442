"""PyTorch's private address of what `engine.core.printing` has; libraries write their own tensors with it."""

from __future__ import annotations

from ..core.printing import elements_text as _tensor_str
from ..core.printing import options as PRINT_OPTS
from ..core.printing import set_printoptions, suffixed, tensor_text
from ..core.tensor import Tensor

__all__ = ["PRINT_OPTS", "_add_suffixes", "_str", "_tensor_str", "set_printoptions"]


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """The text with suffixes behind it and the closing bracket."""
    return suffixed(tensor_str, suffixes, indent, force_newline)


def _str(self: Tensor) -> str:
    """The text of a tensor."""
    return tensor_text(self)
