"""Support for PyTorch tensors and models in the workbench, through PyTorch's public hooks. Nothing here imports torch.

A caller that passes a tensor or a module has already imported torch, so `loaded` finds it in `sys.modules`.
"""

from . import loaded
from .loaded import is_module, is_tensor

__all__ = ["is_module", "is_tensor", "loaded"]
