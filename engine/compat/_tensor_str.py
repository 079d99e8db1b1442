"""PyTorch's private name for `engine.core.printing`, which libraries use to print their own tensors."""

from __future__ import annotations

from ..core.printing import elements_text as _tensor_str
from ..core.printing import options as PRINT_OPTS
from ..core.printing import set_printoptions, suffixed, tensor_text
from ..core.tensor import Tensor

__all__ = ["PRINT_OPTS", "_add_suffixes", "_str", "_tensor_str", "set_printoptions"]


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Append suffixes and the closing bracket to the text of a tensor."""
    return suffixed(tensor_str, suffixes, indent, force_newline)


def _str(self: Tensor) -> str:
    """Return the text of a tensor."""
    return tensor_text(self)
