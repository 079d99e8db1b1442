"""`torch.jit.annotations`: types from `typing` for TorchScript annotations."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  programs import the old names

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
