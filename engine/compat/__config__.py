"""`engine.__config__`: how the libraries underneath were built, as text."""

from __future__ import annotations

import contextlib
import io

import numpy

from . import version


def show() -> str:
    """The engine's version and NumPy's build information."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        numpy.show_config()
    return f"engine {version.__version__}\n{told.getvalue()}"


def parallel_info() -> str:
    """How many threads the engine asks for."""
    from .. import get_num_interop_threads, get_num_threads

    return f"intra-op threads: {get_num_threads()}\ninter-op threads: {get_num_interop_threads()}\n"
