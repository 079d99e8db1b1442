"""XLA as an array namespace: arrays whose values are known only when the compiled program runs. Importing this package imports JAX."""

import os

import jax

from ...base import errors
from .array import Traced, TraceError, raw, wrap
from .namespace import space

__all__ = ["TraceError", "Traced", "raw", "space", "wrap"]

errors.hide(os.path.dirname(jax.__file__) + os.sep, tool=False)  # JAX runs the user's code while it traces
