"""Softmax, cross-entropy and normalization by the kernels of `rows.cu`, under the names of the array interface.

Statistics of float16 and bfloat16 are float32, as are the weights that the kernels read.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy
import numpy

from ...base import dtypes
from ...base.layout import contiguous_format, inverse, lies_in, order, suggested
from .. import kernels_loss, kernels_norm
from ..reference import _along
from . import launch, reduce

__all__ = ["log_softmax", "log_sum_exp", "normalize", "normalize_input", "normalize_weight", "softmax", "softmax_minus"]

# dtype -> that of the arithmetic and of statistics
_COMPUTED = {dtypes.float16.numpy: dtypes.F32, dtypes.bfloat16.numpy: dtypes.F32, dtypes.F32: dtypes.F32, dtypes.F64: dtypes.F64}
_VECTOR, _HELD, _MOST = 16, 4, 512  # bytes that a thread reads at once, vectors that it holds, threads of a row at most; as in `rows.cu`
_BLOCK, _THREADS = 256, 1 << 16  # threads of a block; enough to occupy the largest GPUs
_LONG, _MANY = 1 << 16, 128  # fewer and longer rows are better normalized in parts


@functools.cache
def _kernel(name: str, dtype: numpy.dtype) -> launch.Kernel:
    return launch.Kernel(launch.source("rows.cu", T=launch.TYPES[dtype.name]), name)


@functools.lru_cache(4096)
def _plan(rows: int, cols: int, inner: int, vector: int, aligned: bool) -> tuple[int, int, int, int, bool]:
    """Return the grid, the block, the threads of a row, the rows beside one another, and whether rows can be read in vectors."""
    if inner > 1:
        side = reduce.power(rows, 32)
        lanes = reduce.power(-(-cols // _HELD), _BLOCK // side)
        return -(-rows * lanes // _BLOCK), _BLOCK, lanes, _BLOCK // lanes, False
    wide = aligned and cols % vector == 0
    vectors = cols // vector if wide else cols
    lanes = reduce.power(reduce.clamp(-(-vectors // _HELD), _THREADS // rows, vectors), _MOST)
    block = _BLOCK if lanes < _BLOCK else lanes
    return -(-rows * lanes // block), block, lanes, 1, wide


def _aligned(x: Any, *arrays: Any) -> bool:
    """Whether a kernel for elements of x's dtype can read vectors of these arrays, some of which may be of wider statistics."""
    size = _VECTOR // x.dtype.itemsize * _COMPUTED[x.dtype].itemsize
    return not any(a is not None and a.data.ptr % size for a in arrays)


def _pointer(a: Any) -> int:
    return 0 if a is None else a.data.ptr


def _along_axis(name: str, x: Any, axis: int, out: Any, *between: Any, aligned: bool) -> None:
    """Launch a kernel along an axis of row-major `x`; `between` are its arguments between `x` and `out`."""
    cols, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = x.size // cols
    grid, block, lanes, side, wide = _plan(rows, cols, inner, _VECTOR // x.dtype.itemsize, aligned)
    _kernel(name, x.dtype)(grid, block, x.data.ptr, *between, out.data.ptr, rows, cols, inner, lanes, side, wide)


# -- softmax and cross-entropy -----------------------------------------------------------------------------------------------


@_along
def softmax(x: Any, axis: int) -> Any:
    """exp(x) / sum(exp(x)) along one axis, with the maximum subtracted first."""
    return _mapped("softmax", axis, x)


@_along
def log_softmax(x: Any, axis: int) -> Any:
    """log(softmax(x)), computed from the logarithm of the sum rather than from the quotient."""
    return _mapped("log_softmax", axis, x)


def softmax_back(g: Any, out: Any, axis: int) -> Any:
    """The gradient of `softmax`, from that of its result `out`."""
    return _mapped("softmax_back", axis, g, out)


def log_softmax_back(g: Any, out: Any, axis: int) -> Any:
    """The gradient of `log_softmax`, from that of its result `out`."""
    return _mapped("log_softmax_back", axis, g, out)


def _mapped(name: str, axis: int, *arrays: Any) -> Any:
    x, *rest = map(cupy.ascontiguousarray, arrays)
    out = cupy.ndarray(x.shape, x.dtype)
    if x.size:
        axis = axis % x.ndim if x.ndim else 0
        _along_axis(name, x.reshape(x.shape or 1), axis, out, *map(_pointer, rest), aligned=_aligned(x, x, out, *rest))
    return out


def log_sum_exp(x: Any) -> Any:
    """log(sum(exp(x))) over the class dimension, which is kept with size 1."""
    if not x.size:
        return kernels_loss.log_sum_exp(x)
    x, axis = cupy.ascontiguousarray(x), min(x.ndim - 1, 1)
    out = cupy.ndarray((*x.shape[:axis], 1, *x.shape[axis + 1 :]), _COMPUTED[x.dtype])
    _along_axis("log_sum_exp", x, axis, out, aligned=_aligned(x, x))
    return out


def softmax_minus(x: Any, lse: Any, scale: Any, g: Any, target: Any, ignore: int) -> Any:
    """Return scale * softmax(x) minus `g` at each place's target class: the gradient of cross-entropy."""
    x = cupy.ascontiguousarray(x)
    out = cupy.ndarray(x.shape, x.dtype)
    if x.size:
        beside = [cupy.ascontiguousarray(a.astype(_COMPUTED[x.dtype], copy=False)) for a in (lse, scale, g)]
        beside.append(cupy.ascontiguousarray(target.astype(dtypes.I64, copy=False)))
        _along_axis("softmax_minus", x, min(x.ndim - 1, 1), out, *map(_pointer, beside), ignore, aligned=_aligned(x, x, out))
    return out


# -- normalization -----------------------------------------------------------------------------------------------------------


def normalize(x: Any, axes: tuple, eps: float, weight: Any = None, bias: Any = None) -> tuple:
    """Return (x - mean) / sqrt(variance + eps) * weight + bias, the mean, and the reciprocal of that square root."""
    if (by := _last(x, axes)) is not None:
        found = normalize(*_turned(by, x, axes), eps, *_turned(by, weight, bias))
        return tuple([a.transpose(inverse(by)) for a in found])
    form = _form(x, axes, weight, bias)
    if form is None:
        return kernels_norm.normalize(x, axes, eps, weight, bias)
    fits = _fits(x, form, axes, weight, bias)
    w, b = (_beside(x, a) if fits else None for a in (weight, bias))
    x, dtype = cupy.ascontiguousarray(x), _COMPUTED[x.dtype]
    out, kept = cupy.ndarray(x.shape, x.dtype), _kept(x, axes)
    if form == "rows":
        mean, rstd = cupy.ndarray(kept, dtype), cupy.empty(kept, dtype)
        _along_rows("layer_norm", x, mean.size, (x, w, b, float(eps), out, mean, rstd))
    else:
        found = reduce.moments(x, axes, eps)
        mean, rstd = found[0].reshape(kept), found[1].reshape(kept)
        _with_statistics("scale", x, form, (x, mean, rstd, found[2], w, b, out))
    if not fits:
        out = out if weight is None else (out * weight).astype(x.dtype, copy=False)
        out = out if bias is None else (out + bias).astype(x.dtype, copy=False)
    return out, mean, rstd


def normalize_input(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple, weight: Any = None) -> Any:
    """Return the gradient of `normalize` with respect to x."""
    if (by := _last(x, axes)) is not None:
        return normalize_input(*_turned(by, g, x, mean, rstd, axes, weight)).transpose(inverse(by))
    form = _form(x, axes, weight)
    if form is None or g.dtype != x.dtype or mean.shape != _kept(x, axes):
        return kernels_norm.normalize_input(g, x, mean, rstd, axes, weight)
    if weight is not None and not _fits(x, form, axes, weight):
        g, weight = (g * weight).astype(g.dtype, copy=False), None
    w, g, x, mean, rstd = _beside(x, weight), *map(cupy.ascontiguousarray, (g, x, mean, rstd))
    out = cupy.ndarray(x.shape, x.dtype)
    if form == "rows":
        _along_rows("layer_norm_input", x, mean.size, (g, x, mean, rstd, w, out))
    else:
        total, product = reduce.slopes(g, x, mean, rstd, axes)
        _with_statistics("scale_input", x, form, (g, x, mean, rstd, total, product, w, float(x.size // mean.size), out))
    return out


def normalize_weight(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    """Return the gradient of `normalize` with respect to a weight that is constant along `axes`, which are summed over and dropped."""
    if (by := _last(x, axes)) is not None:
        return normalize_weight(*_turned(by, g, x, mean, rstd, axes))
    one_each = mean.shape == _kept(x, axes)
    summed = tuple([d for d in range(x.ndim) if d not in axes])
    if not (one_each or mean.shape == _kept(x, summed)) or x.dtype not in _COMPUTED or g.dtype != x.dtype or not x.size:
        return kernels_norm.normalize_weight(g, x, mean, rstd, axes)
    g, x, mean, rstd = map(cupy.ascontiguousarray, (g, x, mean, rstd))
    found = reduce.slopes(g, x, mean, rstd, axes)[1] if one_each else reduce.row_slopes(g, x, mean, rstd, axes)[0]
    return found.reshape([x.shape[d] for d in summed])


def _last(x: Any, axes: tuple) -> tuple | None:
    """The order in memory of channels-last `x`, if `axes` are all but the channels; else None."""
    format = suggested(x)
    return order(format, x.ndim) if format is not contiguous_format and axes == (0, *range(2, x.ndim)) and lies_in(x, format) else None


def _turned(by: tuple, *given: Any) -> list:
    """Arrays with their axes in another order, and for a tuple of axes their numbers in it: the first ones."""
    return [tuple(range(len(a))) if a.__class__ is tuple else a if a is None else a.transpose(by) for a in given]


def _kept(x: Any, axes: tuple) -> tuple:
    return tuple([1 if d in axes else n for d, n in enumerate(x.shape)])


def _form(x: Any, axes: tuple, *weights: Any) -> Any:
    """Return "rows" to normalize the last axes row by row, else the form of `x` for a reduction; None if no kernel takes it."""
    form = reduce.form(x.shape, axes) if x.dtype in _COMPUTED and x.size else None
    if form is None or axes != tuple(range(x.ndim - len(axes), x.ndim)):
        return form
    long = form[3] > _LONG and x.size // form[3] < _MANY and not any(w is not None for w in weights)
    return form if long else "rows"


def _fits(x: Any, form: Any, axes: tuple, *weights: Any) -> bool:
    """Whether a kernel takes these weights: one for each place of a row, or one for each statistic."""
    wanted = x.shape[axes[0] :] if form == "rows" else _kept(x, axes) if form[0] == 1 else None
    return all(w is None or w.shape == wanted for w in weights)


def _beside(x: Any, weight: Any) -> Any:
    return None if weight is None else cupy.ascontiguousarray(weight.astype(_COMPUTED[x.dtype], copy=False))


def _along_rows(name: str, x: Any, rows: int, arguments: tuple, *sizes: int) -> None:
    """Launch a kernel on `rows` contiguous rows; `arguments` are floats, arrays and None."""
    arrays = [a for a in arguments if a.__class__ is not float]
    grid, block, lanes, _, wide = _plan(rows, x.size // rows, 1, _VECTOR // x.dtype.itemsize, _aligned(x, *arrays))
    given = [a if a.__class__ is float else _pointer(a) for a in arguments]
    _kernel(name, x.dtype)(grid, block, *given, rows, x.size // rows, *sizes, lanes, wide)


def _with_statistics(name: str, x: Any, form: tuple, arguments: tuple) -> None:
    outer, runs, inner, length = form
    same = length > 1  # all elements of a row have the same statistics
    _along_rows(name, x, outer * runs * (inner if same else 1), arguments, runs, inner, same)
