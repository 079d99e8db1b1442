"""`engine.functional`: PyTorch's second name for some tensor functions. (For layers, see `engine.nn.functional`.)"""

from __future__ import annotations

import sys
from typing import Any

from ..base import addresses
from ..core.tensor import Tensor  # noqa: F401
from ..nn import functional as F  # noqa: F401  PyTorch's module has both too, and programs find them here

_NAMES = """atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum istft
    lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index"""
__all__ = _NAMES.split()  # pyright: ignore[reportUnsupportedDunderAll]


globals().update({name: vars(sys.modules["engine"])[name] for name in __all__})


def __getattr__(name: str) -> Any:
    __tracebackhide__ = True
    return addresses.attribute(__name__, name, 2)
