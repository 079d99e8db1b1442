"""The number of threads of one op, which NumPy's BLAS and oneDNN follow."""

from __future__ import annotations

import importlib
import os
import re

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")  # in the order in which OpenBLAS reads them
_chosen: int | None = None


def count() -> int:
    """Return the number set with `limit`; before, that of the environment, or the number of processors that the process may use."""
    return _chosen or _default


def limit(n: int) -> None:
    """Set the number of threads of the BLAS that is loaded, and of what oneDNN computes from now on."""
    global _chosen
    _chosen = n
    importlib.import_module("threadpoolctl").threadpool_limits(n)


def processors() -> int:
    """Return the number of processors that the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _from_environment() -> int:
    for name in _VARIABLES:
        if match := re.match(r"\s*([1-9]\d*)", os.environ.get(name, "")):  # OMP_NUM_THREADS may be a list, one for each level
            return int(match[1])
    return processors()


_default = _from_environment()  # read once, as the libraries do
