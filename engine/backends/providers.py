"""Which library computes what on the CPU, as `engine.show_config` prints it."""

from __future__ import annotations

import numpy

from . import fused, mkldnn, onednn, threads


def described() -> str:
    """Return one line for each family of ops with the libraries that compute it, and one with the number of threads."""
    blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    rows = {
        "elementwise, reductions, pools": f"NumPy {numpy.__version__}",
        "matrix products": f"{blas.get('name', 'NumPy')} {blas.get('version', '')}".strip(),
        "compound ops, Adam, randn": fused.status(),
        "convolutions": _convolutions(),
        "threads": str(threads.count()),
    }
    return "".join(f"{name:30} {told}\n" for name, told in rows.items())


def _convolutions() -> str:
    library = onednn.found()
    if isinstance(library, str):
        return f"NumPy; no oneDNN: {library}"
    if not mkldnn.enabled:
        return f"NumPy; oneDNN {library.version} is switched off: engine.backends.mkldnn.enabled is False"
    return f"oneDNN {library.version} for large ones of float32 ({library.file}), NumPy for the others"
