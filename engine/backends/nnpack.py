"""`engine.backends.nnpack`: a library for convolutions that is not used here."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
