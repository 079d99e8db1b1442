"""`torch.jit.annotations`: types from `typing` for TorchScript annotations."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  their old names are what is asked for

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
