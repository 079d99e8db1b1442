"""`engine.backends.opt_einsum`: the order in which einsum multiplies more than two operands."""

from __future__ import annotations

from typing import Any

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: einsum goes from left to right."""
    return False


def get_opt_einsum() -> Any:
    """None: the package opt_einsum is not used."""
    return None
