"""Normalization to zero mean and unit variance, and its gradient, in as few passes over memory as NumPy allows.

`axes` are the normalized dimensions, non-negative; `mean` and `rstd` keep them with size 1. `weight` and `bias` broadcast against x.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from .reduction import sum
from .reference import module_of

_ROWS = 1 << 17  # elements processed at a time, so that they stay in the cache


def normalize(x: Any, axes: tuple, eps: float, weight: Any = None, bias: Any = None) -> tuple:
    """Return (x - mean) / sqrt(variance + eps) * weight + bias, the mean, and the reciprocal of that square root."""
    xp, n = module_of(x), math.prod(x.shape[a] for a in axes)
    kept = tuple(1 if i in axes else m for i, m in enumerate(x.shape))
    out = xp.empty(x.shape, x.dtype)
    mean, rstd = xp.empty(kept, x.dtype), xp.empty(kept, x.dtype)
    for block in _blocks(x, axes):
        few, into = x[block], out[block]
        mean[block] = m = _sum(xp, few, axes) / n
        xp.subtract(few, m, out=into)
        r = 1 / xp.sqrt(_dot(xp, into, into, axes) / n + eps)
        # where the spread is small relative to the mean, the mean's rounding error matters: subtract it too (on a GPU always)
        apart = (m * r).reshape(-1)
        if xp is not numpy or apart @ apart > 64**2 and abs(apart).max() > 64:
            rest = _sum(xp, into, axes) / n
            mean[block] += rest
            into -= rest
            r = 1 / xp.sqrt(_dot(xp, into, into, axes) / n + eps)
        rstd[block] = r
        into *= r
        if weight is not None:
            into *= weight
        if bias is not None:
            into += bias
    return out, mean, rstd


def normalize_input(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple, weight: Any = None) -> Any:
    """Return the gradient of `normalize` with respect to x."""
    xp, n = module_of(x), math.prod(x.shape[a] for a in axes)
    out = xp.empty(x.shape, x.dtype)
    for block in _blocks(x, axes):
        few, into, r = g[block], out[block], rstd[block]
        if weight is not None:
            few = xp.multiply(few, weight, out=into)
        # r (c - unit mean(c unit)), with unit = r apart and c = g - mean(g), which the rounding of x's mean does not affect
        xp.subtract(few, _sum(xp, few, axes) / n, out=into)
        apart = x[block] - mean[block]
        apart *= r * r * _dot(xp, into, apart, axes) / n
        into -= apart
        into *= r
    return out


def normalize_weight(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    """Return the gradient of `normalize` with respect to a weight that is constant along `axes`, which are summed over and dropped."""
    xp = module_of(x)
    total = xp.zeros([1 if i in axes else m for i, m in enumerate(x.shape)], x.dtype)
    for block in _blocks(x, () if 0 in axes else (0,)):
        own = block if len(mean) > 1 else slice(None)  # per-row or common statistics
        unit = x[block] - mean[own]
        unit *= rstd[own]
        unit *= g[block]
        total += _sum(xp, unit, axes)
    return total.reshape([m for i, m in enumerate(x.shape) if i not in axes])


def _blocks(x: Any, axes: tuple) -> list:
    """Return slices along the first dimension; a single one if that is normalized itself, or `x` is small or on a GPU."""
    if 0 in axes or x.ndim < 2 or x.size <= _ROWS or not isinstance(x, numpy.ndarray):
        return [slice(None)]
    step = max(1, _ROWS * len(x) // x.size)
    return [slice(i, i + step) for i in range(0, len(x), step)]


def _sum(xp: Any, x: Any, axes: tuple) -> Any:
    """Sum over axes, which are kept with size 1."""
    return sum(x, axes, True) if xp is numpy else xp.add.reduce(x, axes, keepdims=True)


_LETTERS = "abcdefghij"


def _dot(xp: Any, x: Any, y: Any, axes: tuple) -> Any:
    """Sum x * y over axes, which are kept with size 1."""
    n, inner = x.ndim, len(axes)
    while inner and axes[-inner:] != tuple(range(n - inner, n)):
        inner -= 1
    if xp is numpy and inner:  # one dot product per row of the trailing dimensions
        rows = (*x.shape[: n - inner], math.prod(x.shape[n - inner :]))
        found = numpy.vecdot(x.reshape(rows), y.reshape(rows)).reshape(x.shape[: n - inner] + (1,) * inner)
        return found if inner == len(axes) else numpy.add.reduce(found, axes[:-inner], keepdims=True)
    letters = _LETTERS[:n]
    kept = "".join(c for i, c in enumerate(letters) if i not in axes)
    found = xp.einsum(f"{letters},{letters}->{kept}", x, y)
    return found.reshape([1 if i in axes else m for i, m in enumerate(x.shape)])
