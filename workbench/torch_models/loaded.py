"""The torch that the user has imported, if there is one."""

from __future__ import annotations

import os
import sys
from typing import Any

import engine

_torch: Any = None
_tensor: Any = ()  # torch.Tensor, once there is one; nothing is an instance of ()


def torch() -> Any:
    """The module torch; None as long as nobody has imported it."""
    global _torch, _tensor
    if _torch is None:
        found: Any = sys.modules.get("torch")
        if found is not engine and hasattr(found, "overrides"):  # the engine in its place; an import that has not ended
            _torch, _tensor = found, found.Tensor
    return _torch


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor of PyTorch's."""
    return isinstance(x, _tensor) if _torch is not None else torch() is not None and isinstance(x, _tensor)


def is_module(x: Any) -> bool:
    """Whether it is a module of PyTorch's."""
    module = torch()
    return module is not None and isinstance(x, module.nn.Module)


def folder() -> str:
    """Where torch's own code lies: its frames are not the user's."""
    return os.path.dirname(os.path.abspath(torch().__file__)) + os.sep
