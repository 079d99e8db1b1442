"""`engine.backends.opt_einsum`: PyTorch's switches for the contraction order of einsum with more than two operands."""

from __future__ import annotations

from typing import Any

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Return False: einsum contracts from left to right."""
    return False


def get_opt_einsum() -> Any:
    """Return None: the package opt_einsum is not used."""
    return None
