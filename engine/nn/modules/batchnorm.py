"""Batch normalization layers at PyTorch's import path."""

from ..normalization import (  # noqa: F401
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    LazyBatchNorm1d,
    LazyBatchNorm2d,
    LazyBatchNorm3d,
    _BatchNorm,
    _NormBase,
)
from ..normalization import _LazyNorm as _LazyNormBase  # noqa: F401
from ..synchronized import SyncBatchNorm  # noqa: F401
