"""`engine.types`: type aliases for annotations, as in `torch.types`."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import TypeAlias

from ..base.dtypes import dtype as _dtype  # noqa: F401
from ..core.devices import device as _device
from ..core.storage import UntypedStorage as Storage
from ..core.tensor import Size, Tensor

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_bool, _int, _float, _complex, _str = builtins.bool, builtins.int, builtins.float, builtins.complex, builtins.str
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize = _size
Number: TypeAlias = int | float | bool
FileLike: TypeAlias = str | os.PathLike
Device: TypeAlias = _device | str | int | None

__all__ = ["Device", "FileLike", "Number", "Storage"]
