"""PyTorch tensors and models in the workbench's view, through PyTorch's public hooks. Nothing here imports torch.

Whoever hands over a tensor or a module has imported torch, so `loaded` finds it among the modules that are there.
"""

from . import loaded
from .loaded import is_module, is_tensor

__all__ = ["is_module", "is_tensor", "loaded"]
