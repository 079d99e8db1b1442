"""XLA as an array namespace: arrays whose values are known only when the compiled program runs. Importing this package imports JAX."""

import os
import warnings

import jax

from ...base import errors
from .array import Traced, TraceError, raw, wrap
from .eager import lowering_here
from .namespace import space

__all__ = ["TraceError", "Traced", "lowering_here", "raw", "space", "wrap"]

# JAX warns at every fork, as of a DataLoader's workers; in a forked process the engine calls nothing of it (see `compiler.compiled`)
warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
errors.hide(os.path.dirname(jax.__file__) + os.sep, tool=False)  # JAX runs the user's code while it traces
