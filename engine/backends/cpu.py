"""The CPU array namespace: every primitive, from NumPy or from this folder's modules."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy

from ..base.layout import condensed, overlaps
from . import (
    fused,
    malloc,  # noqa: F401  sets malloc's thresholds
)
from .dnn import convolution, convolution_input, convolution_weight  # noqa: F401
from .primitives import fill

# 1 / 0 is inf and log(-1) is nan silently, as in PyTorch; `numpy.errstate` would not apply to other threads
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"engine\.")

pi, inf, nan = numpy.pi, numpy.inf, numpy.nan


def astype(x: Any, dtype: Any) -> numpy.ndarray:
    """Convert to a dtype, without copying if the array already has it; accepts NumPy scalars."""
    x = numpy.asarray(x)
    if 0 in x.strides and x.dtype != dtype and overlaps(x):
        return condensed(x, dtype)
    return x.astype(dtype, copy=False)


def copy(x: Any) -> numpy.ndarray:
    return condensed(x, x.dtype) if 0 in x.strides and overlaps(x) else numpy.array(x, copy=True, order="K")


def exp(x: Any) -> Any:
    found = fused.each("exp", x)
    return numpy.exp(x) if found is None else found


fill(globals(), numpy)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # names set by `fill`, which type checkers do not see
