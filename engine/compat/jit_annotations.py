"""`torch.jit.annotations`: the types of `typing` that annotations for scripts are written with."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  their old names are what is asked for

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
