"""The CPU's array namespace: every primitive, by NumPy or by this folder's code."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy

from ..base.layout import condensed, overlaps
from . import malloc  # noqa: F401  sets malloc's thresholds
from .primitives import fill

# 1 / 0 is inf and log(-1) is nan without a word, as in PyTorch; NumPy's own state would not reach other threads
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"engine\.")

pi, inf, nan = numpy.pi, numpy.inf, numpy.nan


def astype(x: Any, dtype: Any) -> numpy.ndarray:
    """The array in another dtype; itself when it has that dtype already. Works on NumPy scalars too."""
    x = numpy.asarray(x)
    if 0 in x.strides and x.dtype != dtype and overlaps(x):
        return condensed(x, dtype)
    return x.astype(dtype, copy=False)


def copy(x: Any) -> numpy.ndarray:
    return condensed(x, x.dtype) if 0 in x.strides and overlaps(x) else numpy.array(x, copy=True, order="K")


fill(globals(), numpy)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # what `fill` has put here, type checkers do not see
