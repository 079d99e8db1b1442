"""`engine.backends.mkl`: whether NumPy was built with Intel's library."""

from __future__ import annotations

import numpy


def is_available() -> bool:
    """Whether NumPy's products and factorisations are MKL's."""
    blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return "mkl" in str(blas.get("name", "")).lower()
