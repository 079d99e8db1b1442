"""Losses of classes by the kernels of `index.cu`, under the names of the array interface: see `kernels_loss`, which is for the CPU.

A target that is no class is noted by the kernel, and raised when the host next waits.
"""

from __future__ import annotations

from typing import Any

import cupy

from ..kernels_loss import fitting_classes
from .index import _gathered, _integers, _keys, _put, _taken

_LOSS = "cross_entropy or nll_loss"  # what an error names


def _along(shape: tuple, target: Any) -> tuple[int, Any]:
    """Return the class dimension, and the target with that dimension, of size 1."""
    axis = min(len(shape) - 1, 1)
    return axis, target.reshape(*target.shape[:axis], 1, *target.shape[axis:])


def class_weights(target: Any, weight: Any, ignore: int, dtype: Any) -> Any:
    """Return the weight of each target's class; 0 for an ignored target."""
    if weight is None:
        return (target != ignore).astype(dtype)
    return _taken(weight, 0, target.reshape(-1), _LOSS, skip=ignore).reshape(target.shape).astype(dtype, copy=False)


def class_pick(x: Any, target: Any, weight: Any = None, ignore: int = -100) -> Any:
    """Return each place's element at its target class, times the weight of that class; 0 for an ignored target."""
    fitting_classes(x.shape, target, weight)
    axis, index = _along(x.shape, target)
    found = _gathered(x, axis, _integers(index), index.shape, _LOSS, skip=ignore).reshape(target.shape)
    return found if weight is None else found * class_weights(target, weight, ignore, x.dtype)


def class_spread(g: Any, target: Any, weight: Any, size: tuple, ignore: int = -100) -> Any:
    """The transpose of `class_pick`: zeros of shape `size` with each element of `g`, times its class's weight, at its target class."""
    out = cupy.zeros(size, g.dtype)
    if target.size:
        axis, index = _along(size, target)
        value = g if weight is None else g * class_weights(target, weight, ignore, g.dtype)
        _put(out, _keys(index, size, axis, _LOSS, skip=ignore), value.reshape(-1), once=True)
    return out
