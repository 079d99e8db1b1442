"""Access to the torch module that the user has imported, if any."""

from __future__ import annotations

import os
import sys
from typing import Any

import engine

_torch: Any = None
_tensor: Any = ()  # torch.Tensor once torch is found; nothing is an instance of ()


def torch() -> Any:
    """The module torch; None until it has been imported."""
    global _torch, _tensor
    if _torch is None:
        found: Any = sys.modules.get("torch")
        if found is not engine and hasattr(found, "overrides"):  # not the engine registered as torch, nor an unfinished import
            _torch, _tensor = found, found.Tensor
    return _torch


def is_tensor(x: Any) -> bool:
    """Whether `x` is a PyTorch tensor."""
    return isinstance(x, _tensor) if _torch is not None else torch() is not None and isinstance(x, _tensor)


def is_module(x: Any) -> bool:
    """Whether `x` is a PyTorch module."""
    module = torch()
    return module is not None and isinstance(x, module.nn.Module)


def is_loader(x: Any) -> bool:
    """Whether `x` is a DataLoader of PyTorch."""
    module = torch()
    return module is not None and isinstance(x, module.utils.data.DataLoader)


def folder() -> str:
    """The folder of torch's own code; frames from it are not the user's."""
    return os.path.dirname(os.path.abspath(torch().__file__)) + os.sep
