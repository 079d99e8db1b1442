"""What plain pickles that PyTorch wrote, `pickle.dumps(tensor)`, call when they are read."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from ..core import storage, tensor
from ..core.storage import UntypedStorage
from ..core.tensor import Tensor
from .allowed import rebuilder, retyped
from .files import load

_REBUILT = ("tensor", "tensor_v2", "tensor_v3", "parameter", "parameter_with_state", "sparse_tensor", "meta_tensor_no_storage")
of_utils = {f"_rebuild_{name}": rebuilder(f"torch._utils._rebuild_{name}") for name in _REBUILT}  # functions of torch._utils
get_layout = rebuilder("torch.serialization._get_layout")


def _load_from_bytes(b: bytes) -> UntypedStorage:
    """Read a storage."""
    return load(io.BytesIO(b), weights_only=False)


def _rebuild_from_type_v2(func: Callable, new_type: type, args: tuple, state: Any) -> Tensor:
    """Make a tensor of a subclass, or with attributes."""
    return retyped(func(*args), new_type, state)


for _home, _fn in ((storage, _load_from_bytes), (tensor, _rebuild_from_type_v2)):  # of torch.storage and torch._tensor
    setattr(_home, _fn.__name__, _fn)
