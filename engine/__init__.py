"""An eager deep-learning engine with PyTorch's names."""

from . import ops
from .op import functions as _functions
from .tensor import Tensor

globals().update({n: f for n, f in _functions.items() if "." not in n})
