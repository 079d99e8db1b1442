"""`engine.__config__`: build information of the underlying libraries."""

from __future__ import annotations

import contextlib
import io

import numpy

from ..backends import providers
from . import version


def show() -> str:
    """Return the engine's version, which library computes what on the CPU, and NumPy's build information."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        numpy.show_config()
    return f"engine {version.__version__}\n{providers.described()}{told.getvalue()}"


def parallel_info() -> str:
    """Return the engine's numbers of threads."""
    from .. import get_num_interop_threads, get_num_threads

    return f"intra-op threads: {get_num_threads()}\ninter-op threads: {get_num_interop_threads()}\n"
