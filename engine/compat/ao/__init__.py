"""`engine.ao`: PyTorch's package of optimized models, of which `quantization` has names that libraries ask for."""

from . import quantization

__all__ = ["quantization"]
