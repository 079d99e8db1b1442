"""XLA as an array namespace: arrays whose values are known only when the compiled program runs. Importing this package imports JAX."""

from .array import Traced, TraceError, raw, wrap
from .namespace import space

__all__ = ["TraceError", "Traced", "raw", "space", "wrap"]
