"""The torch that the user has imported, if there is one."""

from __future__ import annotations

import os
import sys
from typing import Any


def torch() -> Any:
    """The module torch; None as long as nobody has imported it."""
    found = sys.modules.get("torch")
    return found if hasattr(found, "overrides") else None  # without it, an import that has not ended


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor of PyTorch's."""
    module = torch()
    return module is not None and isinstance(x, module.Tensor)


def is_module(x: Any) -> bool:
    """Whether it is a module of PyTorch's."""
    module = torch()
    return module is not None and isinstance(x, module.nn.Module)


def folder() -> str:
    """Where torch's own code lies: its frames are not the user's."""
    return os.path.dirname(os.path.abspath(torch().__file__)) + os.sep
