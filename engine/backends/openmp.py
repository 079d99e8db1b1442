"""`engine.backends.openmp`: whether the engine's own loops use OpenMP."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: the loops are NumPy's, whose BLAS manages its own threads."""
    return False
