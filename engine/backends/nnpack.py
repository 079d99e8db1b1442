"""`engine.backends.nnpack`: PyTorch's query for NNPACK, a convolution library that is not used here."""

from __future__ import annotations


def is_available() -> bool:
    """Return False."""
    return False
