"""`engine.testing`: compare tensors within tolerances, and create random test inputs."""

from .comparison import assert_allclose, assert_close
from .creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
