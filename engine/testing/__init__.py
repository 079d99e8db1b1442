"""`engine.testing`: tensors that should be close, and random ones to try functions with."""

from .comparison import assert_allclose, assert_close
from .creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
