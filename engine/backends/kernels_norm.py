"""Normalization to zero mean and unit variance, and its gradient, in as few passes over memory as NumPy allows.

`axes` are the normalized dimensions, non-negative; `mean` and `rstd` keep them with size 1. `weight` and `bias` broadcast against x.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..base.dtypes import F32
from . import fused
from .reduction import sum
from .reference import module_of
from .workers import even_parts, share

_ROWS = 1 << 18  # elements processed at a time, so that they stay in the cache


def normalize(x: Any, axes: tuple, eps: float, weight: Any = None, bias: Any = None) -> tuple:
    """Return (x - mean) / sqrt(variance + eps) * weight + bias, the mean, and the reciprocal of that square root."""
    xp, blocks = module_of(x), _blocks(x, axes)
    run, shape = _compiled("", x, axes, weight, bias)
    if run is None and len(blocks) == 1:
        return _normalized(xp, x, axes, eps, weight, bias, xp.empty(x.shape, x.dtype))
    kept = tuple(1 if i in axes else m for i, m in enumerate(x.shape))
    out, mean, rstd = xp.empty(x.shape, x.dtype), xp.empty(kept, x.dtype), xp.empty(kept, x.dtype)
    if run is None:
        for block in blocks:
            _, mean[block], rstd[block] = _normalized(xp, x[block], axes, eps, weight, bias, out[block])
    elif len(shape) == 2:
        last = (out.reshape(shape), mean.reshape(-1), rstd.reshape(-1))
        share(run, (x.reshape(shape),), _flat(weight), _flat(bias), eps, last=last)
    else:
        given = (x.reshape(shape), _flat(weight), _flat(bias), eps, out.reshape(shape), mean.reshape(-1), rstd.reshape(-1))
        share(run, (numpy.arange(shape[1]),), *given, work=x.size)
    return out, mean, rstd


def _normalized(xp: Any, x: Any, axes: tuple, eps: float, weight: Any, bias: Any, out: Any) -> tuple:
    n = math.prod([x.shape[a] for a in axes])
    mean = _sum(xp, x, axes) / n
    out = xp.subtract(x, mean, out=out)
    r = 1 / xp.sqrt(_dot(xp, out, out, axes) / n + eps)
    # where the spread is small relative to the mean, the mean's rounding error matters: subtract it too (on a GPU always)
    if xp is not numpy or numpy.maximum.reduce(abs(mean * r), None, initial=0) > 64:
        rest = _sum(xp, out, axes) / n
        mean = mean + rest
        out -= rest
        r = 1 / xp.sqrt(_dot(xp, out, out, axes) / n + eps)
    out *= r
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return out, mean, r


def normalize_input(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple, weight: Any = None) -> Any:
    """Return the gradient of `normalize` with respect to x."""
    xp, blocks = module_of(x), _blocks(x, axes)
    run, shape = _compiled("_input", x, axes, g, mean, rstd, weight)
    if run is None and len(blocks) == 1:
        return _normalized_input(xp, g, x, mean, rstd, axes, weight, xp.empty(x.shape, x.dtype))
    out = xp.empty(x.shape, x.dtype)
    if run is None:
        for block in blocks:
            _normalized_input(xp, g[block], x[block], mean[block], rstd[block], axes, weight, out[block])
    elif len(shape) == 2:
        given = (g.reshape(shape), x.reshape(shape), mean.reshape(-1), rstd.reshape(-1))
        share(run, given, _flat(weight), last=(out.reshape(shape),))
    else:
        given = (g.reshape(shape), x.reshape(shape), mean.reshape(-1), rstd.reshape(-1), _flat(weight), out.reshape(shape))
        share(run, (numpy.arange(shape[1]),), *given, work=x.size)
    return out


def _normalized_input(xp: Any, g: Any, x: Any, mean: Any, r: Any, axes: tuple, weight: Any, out: Any) -> Any:
    n = math.prod([x.shape[a] for a in axes])
    if weight is not None:
        g = out = xp.multiply(g, weight, out=out)
    # r (c - unit mean(c unit)), with unit = r apart and c = g - mean(g), which the rounding of x's mean does not affect
    out = xp.subtract(g, _sum(xp, g, axes) / n, out=out)
    apart = x - mean
    apart *= r * r * _dot(xp, out, apart, axes) / n
    out -= apart
    out *= r
    return out


def normalize_weight(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    """Return the gradient of `normalize` with respect to a weight that is constant along `axes`, which are summed over and dropped."""
    xp = module_of(x)
    kept = [1 if i in axes else m for i, m in enumerate(x.shape)]
    normalized = axes if list(mean.shape) == kept else tuple([i for i in range(x.ndim) if i not in axes])
    run, shape = _compiled("_weight", x, normalized, g, mean, rstd)
    total: Any = 0
    if run is not None and len(shape) == 2:
        n, m = shape
        parts = even_parts(n, x.size)
        sums = numpy.zeros((parts, m), x.dtype)
        cubes, rows = (parts, n // parts, m), (parts, n // parts)
        share(run, (g.reshape(cubes), x.reshape(cubes), mean.reshape(rows), rstd.reshape(rows)), last=(sums,))
        total = numpy.add.reduce(sums).reshape(kept)
    elif run is not None:
        total = numpy.empty(kept, x.dtype)
        given = (g.reshape(shape), x.reshape(shape), mean.reshape(-1), rstd.reshape(-1), total.reshape(-1))
        share(run, (numpy.arange(shape[1]),), *given, work=x.size)
    for block in _blocks(x, () if 0 in axes else (0,)) if run is None else ():
        own = block if len(mean) > 1 else slice(None)  # per-row or common statistics
        unit = x[block] - mean[own]
        unit *= rstd[own]
        unit *= g[block]
        total = total + _sum(xp, unit, axes)
    return total.reshape([m for i, m in enumerate(x.shape) if i not in axes])


# -- groups of channels, and the root mean square: compiled kernels, or None ---------------------------------------------------


def normalize_groups(x: Any, groups: int, eps: float, weight: Any, bias: Any) -> tuple | None:
    """`normalize` of (N, C, ...) in groups of channels, with a weight and bias of each channel; mean and rstd are (N, groups, 1)."""
    if not x.size or (run := fused.kernel("normalize_groups", x, *[w for w in (weight, bias) if w is not None])) is None:
        return None
    out, (mean, rstd) = numpy.empty_like(x), numpy.empty((2, len(x), groups, 1), x.dtype)
    blocks = (len(x) * groups, x.shape[1] // groups, -1)
    given = (x.reshape(blocks), _table(weight, groups), _table(bias, groups), eps, out.reshape(blocks), mean.reshape(-1), rstd.reshape(-1))
    share(run, (numpy.arange(blocks[0]),), *given, work=x.size)
    return out, mean, rstd


def normalize_groups_input(g: Any, x: Any, mean: Any, rstd: Any, weight: Any) -> Any:
    """Return the gradient of `normalize_groups` with respect to x."""
    beside = (mean, rstd) if weight is None else (mean, rstd, weight)
    if not x.size or (run := fused.kernel("normalize_groups_input", x, g, *beside)) is None:
        return None
    out, groups = numpy.empty_like(x), mean.shape[1]
    blocks = (len(x) * groups, x.shape[1] // groups, -1)
    given = (g.reshape(blocks), x.reshape(blocks), mean.reshape(-1), rstd.reshape(-1), _table(weight, groups), out.reshape(blocks))
    share(run, (numpy.arange(blocks[0]),), *given, work=x.size)
    return out


def normalize_groups_weight(g: Any, x: Any, mean: Any, rstd: Any) -> Any:
    """Return the gradient of `normalize_groups` with respect to the weight."""
    if not x.size or (run := fused.kernel("normalize_groups_weight", x, g, mean, rstd)) is None:
        return None
    shape, total = (*x.shape[:2], -1), numpy.empty(x.shape[1], x.dtype)
    given = (g.reshape(shape), x.reshape(shape), mean.reshape(mean.shape[:2]), rstd.reshape(mean.shape[:2]), total)
    share(run, (numpy.arange(x.shape[1]),), *given, work=x.size)
    return total


def _table(weight: Any, groups: int) -> Any:
    return _NOTHING[None] if weight is None else weight.reshape(groups, -1)


def rms_normalize(x: Any, dims: int, eps: float, weight: Any) -> tuple | None:
    """Return x / sqrt(mean(x^2) + eps) * weight, with the mean over the last `dims` dimensions, and the reciprocal of the root."""
    if (run := fused.kernel("rms_rows", x, *() if weight is None else (weight,))) is None:
        return None
    rows = (math.prod(x.shape[:-dims]), math.prod(x.shape[-dims:]))
    out, rstd = numpy.empty_like(x), numpy.empty((*x.shape[:-dims], *(1,) * dims), x.dtype)
    share(run, (x.reshape(rows),), _flat(weight), eps, last=(out.reshape(rows), rstd.reshape(-1)))
    return out, rstd


def rms_normalize_input(g: Any, x: Any, dims: int, rstd: Any, weight: Any) -> Any:
    """Return the gradient of `rms_normalize` with respect to x."""
    if (run := fused.kernel("rms_rows_input", x, g, rstd, *() if weight is None else (weight,))) is None:
        return None
    rows, out = (math.prod(x.shape[:-dims]), math.prod(x.shape[-dims:])), numpy.empty_like(x)
    share(run, (g.reshape(rows), x.reshape(rows), rstd.reshape(-1)), _flat(weight), last=(out.reshape(rows),))
    return out


_NOTHING = numpy.empty(0, F32)


def _flat(weight: Any) -> Any:
    """A weight as the compiled kernels take it: of one dimension, without elements if there is none."""
    return _NOTHING if weight is None else weight.reshape(-1)


def _compiled(task: str, x: Any, axes: tuple, *beside: Any) -> tuple:
    """Return the compiled kernel of a task and the shape in which it takes x; None if there is no kernel for these arrays.

    It takes rows (R, n), each of which is normalized, or (N, C, n), of which each channel is.
    """
    if x.size < fused.LEAST or not axes:
        return None, ()
    first, n = axes[0], x.ndim
    if first and axes == tuple(range(first, n)):
        kind, shape = "rows", (math.prod(x.shape[:first]), math.prod(x.shape[first:]))
    elif n > 2 and axes == (0, *range(2, n)) and math.prod(x.shape[2:]) >= 8:
        kind, shape = "channels", (*x.shape[:2], math.prod(x.shape[2:]))
    else:
        return None, ()
    return fused.kernel(f"normalize_{kind}{task}", x, *[a for a in beside if a is not None]), shape


def _blocks(x: Any, axes: tuple) -> list:
    """Return slices along the first dimension; a single one if that is normalized itself, or `x` is small or on a GPU."""
    if x.size <= _ROWS or 0 in axes or x.ndim < 2 or not isinstance(x, numpy.ndarray):
        return [slice(None)]
    step = max(1, _ROWS * len(x) // x.size)
    return [slice(i, i + step) for i in range(0, len(x), step)]


def _sum(xp: Any, x: Any, axes: tuple) -> Any:
    """Sum over axes, which are kept with size 1."""
    return sum(x, axes, True) if xp is numpy and x.size > _FEW else xp.add.reduce(x, axes, None, None, True)


_FEW = 1024  # elements; for fewer, a plain sum is the fastest
_LETTERS = "abcdefghij"


def _dot(xp: Any, x: Any, y: Any, axes: tuple) -> Any:
    """Sum x * y over axes, which are kept with size 1."""
    if x.size <= _FEW:
        return xp.add.reduce(x * y, axes, None, None, True)
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
