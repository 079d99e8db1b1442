"""Which library computes what on the CPU, as `engine.show_config` prints it."""

from __future__ import annotations

import numpy

from . import fused, mkldnn, onednn, threads


def described() -> str:
    """Return one line for each family of ops with the libraries that compute it, and one with the number of threads."""
    blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    rows = {
        "elementwise, reductions, pools": f"NumPy {numpy.__version__}",
        "matrix products": _large(f"{blas.get('name', 'NumPy')} {blas.get('version', '')}".strip()),
        "convolutions": _large("NumPy"),
        "compound ops, Adam, randn": fused.status(),
        "threads": str(threads.count()),
    }
    return "".join(f"{name:30} {told}\n" for name, told in rows.items())


def _large(others: str) -> str:
    """Describe what computes a family of ops: oneDNN the large ones of float32, `others` the rest."""
    library = onednn.found()
    if isinstance(library, str):
        return f"{others}; no oneDNN: {library}"
    if not mkldnn.enabled:
        return f"{others}; oneDNN {library.version} is switched off: engine.backends.mkldnn.enabled is False"
    return f"oneDNN {library.version} for large ones of float32 ({library.file}), {others} for the others"
