"""`engine.backends.mkl`: whether NumPy was built with Intel MKL."""

from __future__ import annotations

import numpy


def is_available() -> bool:
    """Return whether NumPy's matrix products and factorizations use MKL."""
    blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return "mkl" in str(blas.get("name", "")).lower()
