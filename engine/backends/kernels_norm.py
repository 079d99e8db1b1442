"""Normalisation to zero mean and unit variance, and its gradient, in as few passes over memory as NumPy allows.

`axes` are the normalised dimensions, from the front; `mean` and `rstd` keep them with size 1. `weight` and `bias` broadcast against x.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from .reduction import sum
from .reference import module_of

_ROWS = 1 << 17  # elements that are worked on at a time, while they are in the cache


def normalize(x: Any, axes: tuple, eps: float, weight: Any = None, bias: Any = None) -> tuple:
    """(x - mean) / sqrt(variance + eps) * weight + bias, the mean, and the reciprocal of that root."""
    xp, n = module_of(x), math.prod(x.shape[a] for a in axes)
    kept = tuple(1 if i in axes else m for i, m in enumerate(x.shape))
    out = xp.empty(x.shape, x.dtype)
    mean, rstd = xp.empty(kept, x.dtype), xp.empty(kept, x.dtype)
    for block in _blocks(x, axes):
        few, into = x[block], out[block]
        mean[block] = m = _sum(xp, few, axes) / n
        xp.subtract(few, m, out=into)
        r = 1 / xp.sqrt(_dot(xp, into, into, axes) / n + eps)
        # a spread so small beside the mean that the mean's own rounding shows: take it away too
        apart = (m * r).reshape(-1)
        if apart @ apart > 64**2 and abs(apart).max() > 64:
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
    """The gradient of `normalize` with respect to x."""
    xp, n = module_of(x), math.prod(x.shape[a] for a in axes)
    out = xp.empty(x.shape, x.dtype)
    for block in _blocks(x, axes):
        few, into, r = g[block], out[block], rstd[block]
        if weight is not None:
            few = xp.multiply(few, weight, out=into)
        # r (c - unit mean(c unit)), with c = g - mean(g), which does not see the rounding of x's mean, and unit = r apart
        xp.subtract(few, _sum(xp, few, axes) / n, out=into)
        apart = x[block] - mean[block]
        apart *= r * r * _dot(xp, into, apart, axes) / n
        into -= apart
        into *= r
    return out


def normalize_weight(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    """The gradient of `normalize` with respect to a weight that is the same along `axes`; these are summed over."""
    xp = module_of(x)
    total = xp.zeros([1 if i in axes else m for i, m in enumerate(x.shape)], x.dtype)
    for block in _blocks(x, () if 0 in axes else (0,)):
        own = block if len(mean) > 1 else slice(None)  # statistics of each row, or of all of them
        unit = x[block] - mean[own]
        unit *= rstd[own]
        unit *= g[block]
        total += _sum(xp, unit, axes)
    return total.reshape([m for i, m in enumerate(x.shape) if i not in axes])


def _blocks(x: Any, axes: tuple) -> list:
    """Slices along the first dimension; one for everything when that is normalised itself."""
    if 0 in axes or x.ndim < 2 or x.size <= _ROWS:
        return [slice(None)]
    step = max(1, _ROWS * len(x) // x.size)
    return [slice(i, i + step) for i in range(0, len(x), step)]


def _sum(xp: Any, x: Any, axes: tuple) -> Any:
    """The sum over axes, which stay with size 1."""
    return sum(x, axes, True) if xp is numpy else xp.add.reduce(x, axes, keepdims=True)


_LETTERS = "abcdefghij"


def _dot(xp: Any, x: Any, y: Any, axes: tuple) -> Any:
    """The sum of x * y over axes, which stay with size 1."""
    n, inner = x.ndim, len(axes)
    while inner and axes[-inner:] != tuple(range(n - inner, n)):
        inner -= 1
    if xp is numpy and inner:  # the last dimensions as rows, and one dot product for each
        rows = (*x.shape[: n - inner], math.prod(x.shape[n - inner :]))
        found = numpy.vecdot(x.reshape(rows), y.reshape(rows)).reshape(x.shape[: n - inner] + (1,) * inner)
        return found if inner == len(axes) else numpy.add.reduce(found, axes[:-inner], keepdims=True)
    letters = _LETTERS[:n]
    kept = "".join(c for i, c in enumerate(letters) if i not in axes)
    found = xp.einsum(f"{letters},{letters}->{kept}", x, y)
    return found.reshape([1 if i in axes else m for i, m in enumerate(x.shape)])
