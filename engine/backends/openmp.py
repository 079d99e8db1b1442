"""`engine.backends.openmp`: the question whether the engine's own loops run in OpenMP's threads."""

from __future__ import annotations


def is_available() -> bool:
    """False: the loops are NumPy's, whose BLAS has threads of its own."""
    return False
