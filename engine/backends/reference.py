"""Array code that NumPy has no name for, written plainly: the truth that faster kernels are tested against."""

from __future__ import annotations

from typing import Any

import numpy


def put(x: Any, index: Any, value: Any) -> Any:
    """A copy of `x` with `x[index]` replaced by `value`."""
    out = x.copy()
    out[index] = value
    return out


def put_zeros(shape: tuple, index: Any, value: Any, unique: bool) -> Any:
    """Zeros of `shape` with `value` added at `index`; `unique`: no place occurs twice in `index`."""
    value = numpy.asarray(value)
    out = numpy.zeros(shape, value.dtype)
    if unique:
        out[index] = value
    else:
        numpy.add.at(out, index, value)
    return out
