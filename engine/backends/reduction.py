"""Reductions and scans by PyTorch's rules; NumPy's ufunc methods are called directly, to skip its argument handling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from ..base.errors import Refused
from . import fused, gemm
from .elementwise import logaddexp
from .reference import _along, broadcast_to, module_of
from .workers import even_parts, share

__all__ = [
    "all", "any", "argmax", "argmin", "count", "count_nonzero", "cumextreme", "cumprod", "cumsum", "count_integers", "histogram",
    "log_softmax", "logcumsumexp", "logsumexp", "max", "mean", "min", "prod", "search", "softmax", "spread_to", "std", "sum",
    "var", "vector_norm",
]  # fmt: skip

_FAST = (numpy.dtype("float32"), numpy.dtype("float64"))
_ones: dict[tuple, numpy.ndarray] = {}  # (dtype, length) -> ones: sums over rows or columns are products with them


def ones_of(dtype: Any, n: int) -> numpy.ndarray:
    found = _ones.get((dtype, n))
    if found is None:
        if len(_ones) > 64:
            _ones.clear()
        found = _ones[dtype, n] = numpy.ones(n, dtype)
        found.flags.writeable = False
    return found


def _axes(axis: Any, ndim: int) -> tuple:
    """Return non-negative axes; AxisError if one is out of range."""
    return tuple(range(ndim)) if axis is None else numpy.lib.array_utils.normalize_axis_tuple(axis, ndim)


def count(x: Any, axis: Any = None) -> int:
    """Return how many elements each result of a reduction over `axis` combines; AxisError if an axis is out of range."""
    if axis is None or not x.ndim:
        return x.size
    axes = (axis,) if axis.__class__ is int else axis
    for a in axes:
        if not -x.ndim <= a < x.ndim:
            raise numpy.exceptions.AxisError(a, x.ndim)
    return math.prod([x.shape[a] for a in axes])


# -- sums and means ------------------------------------------------------------------------------------------------------------


_add_reduce = numpy.add.reduce


def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Sum over axes; long contiguous rows, and many short ones, are products with ones, up to 8 times faster."""
    if axis is None and not keepdims and dtype is None and x.__class__ is numpy.ndarray and x.dtype in _FAST:
        return _add_reduce(_rows(x), None, None, numpy.empty((), x.dtype), False)  # returns a 0-d array directly, not a scalar to convert
    if axis is not None and x.__class__ is numpy.ndarray and x.size > 1024 and x.dtype in _FAST and dtype is None and x.flags.c_contiguous:
        axes, n, m = _axes(axis, x.ndim), x.ndim, x.shape[-1]
        inner = next(k for k in range(n + 1) if n - 1 - k not in axes)  # of the last dimensions, these are summed over
        if 0 < inner < n and (width := math.prod(x.shape[n - inner :])) >= (1 if inner == 1 == len(axes) else _FEW):
            out, others = _row_sums(x.reshape(*x.shape[: n - inner], width)), tuple([a for a in axes if a < n - inner])
            out = out if not others else _add_reduce(out, others)
            return out.reshape([1 if i in axes else m for i, m in enumerate(x.shape)]) if keepdims else out
        if axes == tuple(range(n - 1)) and n > 1 and m:
            rows = x.reshape(-1, m)
            ones, out = ones_of(x.dtype, len(rows)), None
            if m >= _WIDE and x.size >= _SHARED and len(rows) <= _TALL and (run := fused.kernel("column_sums", x)) is not None:
                parts = even_parts(len(rows), x.size)
                out = numpy.empty((parts, m), x.dtype)
                share(run, (x.reshape(parts, -1, m),), last=(out,))
                out = numpy.add.reduce(out)
            elif x.size >= gemm.LEAST:
                out = gemm.product(ones[None], rows)
            if out is None:
                out = ones @ rows if m < 128 else numpy.add.reduce(rows, 0)
            return out.reshape((1,) * (n - 1) + (m,)) if keepdims else out.reshape(m)
    return _add_reduce(x, axis, dtype, None, keepdims)


def _rows(x: Any) -> Any:
    """Return an array with the same sum as `x`: the sums of short rows of a large contiguous one, which takes a third of the time."""
    if x.size <= 1 << 14 or x.__class__ is not numpy.ndarray or x.dtype not in _FAST or not x.flags.c_contiguous:
        return x
    rows, rest = in_pieces(x)
    return numpy.concatenate([_row_sums(rows), rest])


def in_pieces(x: Any) -> tuple[Any, Any]:
    """Return a contiguous array as rows of 512 elements, and the elements that are left."""
    flat, whole = x.reshape(-1), x.size >> 9 << 9
    return flat[:whole].reshape(-1, 512), flat[whole:]


def squares(x: Any) -> Any:
    """Return the sum of the squares of a real array, in pieces: in one, BLAS would wake its threads, which then spin beside OpenMP's."""
    if x.size <= _ALONE or not x.flags.c_contiguous:
        return numpy.vdot(x, x)
    rows, rest = in_pieces(x)
    if x.size >= _SHARED and (run := fused.kernel("row_squares", x)) is not None:
        parts = numpy.empty(len(rows), x.dtype)
        share(run, (rows,), last=(parts,))
    else:
        parts = numpy.vecdot(rows, rows)
    return numpy.add.reduce(parts) + rest.dot(rest)


def _row_sums(x: Any) -> Any:
    """Sums over the last dimension of a contiguous array."""
    if x.size >= _SHARED and (run := fused.kernel("row_sums", x)) is not None:
        out = numpy.empty(x.shape[:-1], x.dtype)
        share(run, (x.reshape(-1, x.shape[-1]),), last=(out.reshape(-1),))
        return out
    return numpy.vecdot(x, ones_of(x.dtype, x.shape[-1]))  # row by row: a matrix product would use several threads


_SHARED = 1 << 17  # elements, from which on threads share the rows
_FEW = 16  # elements; for fewer in a row, NumPy's sum over several dimensions is as fast
_ALONE = 1 << 13  # elements, which one of BLAS's threads multiplies
_WIDE, _TALL = 64, 1 << 13  # columns at least, and rows at most, that a kernel adds in turn


def spread_to(x: Any, shape: tuple) -> Any:
    """Broadcast `x` to a shape, for gradients of sums; a small result is a copy, which takes an eighth of the time of a view."""
    if math.prod(shape) > 1 << 16:
        return broadcast_to(x, shape)
    out = numpy.empty(shape, x.dtype)
    out[...] = x
    return out


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    total = sum(x, axis, keepdims) if axis is not None or keepdims else _add_reduce(_rows(x), None)  # scalars divide faster
    n = count(x, axis)  # after the sum, which raises a readable error for a wrong axis
    return total / n if n else total * math.nan


def var(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Variance: the sum of squared distances from the mean, divided by the count minus `correction`."""
    n = count(x, axis)
    if axis is None and not keepdims and (run := fused.kernel("row_spread", x)) is not None:
        (rows, left), middle = in_pieces(x), mean(x)
        sums, spread = numpy.empty((2, len(rows)), x.dtype)
        share(run, (rows, numpy.full(len(rows), middle)), last=(sums, spread))
        left = left - middle
        total, rest = numpy.add.reduce(spread) + left.dot(left), numpy.add.reduce(sums) + numpy.add.reduce(left)
    else:
        d = x - mean(x, axis, True)
        spread = (d * d.conj()).real if d.dtype.kind == "c" else d * d
        total, rest = sum(spread, axis, keepdims), sum(d, axis, keepdims)
    if n > 1:  # the distances sum to n times the rounding error of the mean, which for a mean far from 0 is as large as they are
        off = numpy.square(numpy.abs(rest)) / n
        total = numpy.where(numpy.isfinite(off), numpy.maximum(total - off, 0), total)
    return total / (n - correction) if n > 0 and n > correction else numpy.where(total > 0, numpy.inf, numpy.nan).astype(spread.dtype)


def std(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Standard deviation: the square root of `var`, in float64 if the squares overflow or underflow float32."""
    out = numpy.sqrt(var(x, axis, correction, keepdims))
    if out.dtype == numpy.float32 and (numpy.isinf(out) | (out == 0)).any():
        return numpy.sqrt(var(x.astype(numpy.result_type(x.dtype, numpy.float64)), axis, correction, keepdims)).astype(out.dtype)
    return out


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return numpy.multiply.reduce(x, axis, None, None, keepdims)


def count_nonzero(x: Any, axis: Any = None) -> Any:
    return numpy.add.reduce(numpy.not_equal(x, 0), axis, numpy.int64)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))), with the maximum subtracted first."""
    if axis in (-1, x.ndim - 1, (-1,), (x.ndim - 1,)) and (run := fused.kernel("log_sum_exp", x)) is not None:
        out = numpy.empty(x.shape[:-1], x.dtype)
        share(run, (x.reshape(-1, x.shape[-1]),), last=(out.reshape(-1),))
        if numpy.isfinite(out).all():  # the kernel gives nan for a row with an infinite maximum
            return out[..., None] if keepdims else out
    top = numpy.maximum.reduce(x.real, axis, None, None, True, -numpy.inf)
    top = numpy.where(numpy.isfinite(top), top, 0)
    total = sum(numpy.exp(x - top), axis, True)
    out = numpy.log(total, out=numpy.full_like(total, -numpy.inf), where=total != 0) + top
    return out if keepdims else out.reshape(numpy.add.reduce(out, axis).shape)


def vector_norm(x: Any, ord: float = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    """Vector norm (sum |x|^ord)^(1/ord); the largest or smallest |x| for inf and -inf, the count of non-zeros for 0.

    Refused for a negative or infinite `ord` of an empty tensor.
    """
    if (ord < 0 or ord == math.inf) and count(x, axis) == 0:
        raise Refused(f"cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    if ord == 0:
        return numpy.add.reduce(numpy.not_equal(x, 0), axis, x.real.dtype, None, keepdims)
    if count(x, axis) == 1:
        return sum(numpy.abs(x), axis, keepdims)  # no power, which could overflow
    if ord == 2 and axis is None and not keepdims and x.dtype in _FAST and x.flags.c_contiguous:
        return numpy.sqrt(squares(x))
    if ord == 2 and x.dtype.kind != "c":
        return numpy.sqrt(sum(x * x, axis, keepdims))
    size = numpy.abs(x)
    if math.isinf(ord):
        return (numpy.maximum if ord > 0 else numpy.minimum).reduce(size, axis, None, None, keepdims)
    return sum(size, axis, keepdims) if ord == 1 else sum(size**ord, axis, keepdims) ** (1 / ord)


# -- extremes ------------------------------------------------------------------------------------------------------------------


def _extreme(ufunc: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    if axis.__class__ is int and axis + 1 in (0, x.ndim) and x.ndim == 2 and 1 < x.shape[1] <= 32 < len(x):
        # short rows: reducing by columns is 3 times faster
        out = ufunc.reduce(numpy.ascontiguousarray(x.T), 0)
        return out[:, None] if keepdims else out
    try:
        return ufunc.reduce(x, axis, None, None, keepdims)
    except ValueError as error:
        if isinstance(error, numpy.exceptions.AxisError) or count(x, axis):
            raise
        raise _empty(x, axis) from None


def _empty(x: Any, axis: Any, kind: type[Exception] = RuntimeError) -> Refused:
    if axis is None:
        return Refused(
            "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", kind
        )
    d = next(a for a in _axes(axis, x.ndim) if x.shape[a] == 0)
    return Refused(f"Expected reduction dim {d} to have non-zero size.", IndexError)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme(numpy.maximum, x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme(numpy.minimum, x, axis, keepdims)


def _where_extreme(method: Callable, x: Any, axis: Any, keepdims: bool) -> Any:
    try:
        return method(axis, keepdims=keepdims)
    except ValueError as error:
        if isinstance(error, numpy.exceptions.AxisError) or count(x, axis):
            raise
        if axis is not None and x.shape[axis]:
            return numpy.zeros(numpy.add.reduce(x, axis, None, None, keepdims).shape, numpy.int64)
        raise _empty(x, axis, IndexError) from None


def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _where_extreme(x.argmax, x, axis, keepdims)


def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _where_extreme(x.argmin, x, axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    out = numpy.logical_and.reduce(x, axis, None, None, keepdims)
    return out.astype(x.dtype) if x.dtype == numpy.uint8 else out


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    out = numpy.logical_or.reduce(x, axis, None, None, keepdims)
    return out.astype(x.dtype) if x.dtype == numpy.uint8 else out


# -- along one axis: scans, softmax --------------------------------------------------------------------------------------------


@_along
def cumsum(x: Any, axis: int) -> Any:
    if x.__class__ is numpy.ndarray and x.size >= fused.LEAST:  # the gradient's `x` is flipped, and so not contiguous
        found = fused.each_row("cumsum", axis, numpy.ascontiguousarray(x))
        if found is not None:
            return found
    lines = math.prod(x.shape[axis + 1 :])
    if x.__class__ is numpy.ndarray and x.size >= _MANY and x.dtype in _FAST and x.flags.c_contiguous and (lines == 1 or lines >= 32):
        out = _running(x.reshape(-1, x.shape[axis], lines)).reshape(x.shape)
        if numpy.isfinite(sum(out)):  # in a product, an infinity or nan would reach earlier elements
            return out
    return _accumulated(numpy.add, x, axis)


def _accumulated(ufunc: Any, x: Any, axis: int) -> Any:
    """Scan with a double-precision accumulator, as PyTorch does on the CPU; it takes no longer."""
    wide = _WIDER.get(x.dtype)
    return ufunc.accumulate(x, axis) if wide is None else ufunc.accumulate(x, axis, wide).astype(x.dtype)


_WIDER = {numpy.dtype("float32"): numpy.dtype("float64"), numpy.dtype("complex64"): numpy.dtype("complex128")}
_MANY = 1 << 14  # elements; for fewer, products take as long as a sequential sum
_SIZES = (*range(16, 33), *range(15, 7, -1))  # block sizes, best first


def _running(x: Any) -> Any:
    """Cumulative sum along the middle axis: products of blocks with a triangle of ones, plus the total of the preceding blocks.

    4 times faster than a sequential sum, where each step waits for the previous one, and closer to PyTorch's, which is kept in float64.
    """
    _, n, lines = x.shape
    size = next((d for d in _SIZES if n % d == 0), 0)
    if not size or x.size < _MANY:
        return numpy.add.accumulate(x, 1)
    triangle, blocks = numpy.tri(size, dtype=x.dtype), x.reshape(-1, n // size, size, lines)
    out = triangle @ blocks if lines > 1 else (blocks.reshape(-1, size) @ triangle.T).reshape(blocks.shape)
    out[:, 1:] += _running(out[:, :-1, -1])[:, :, None]
    return out.reshape(x.shape)


@_along
def cumprod(x: Any, axis: int) -> Any:
    return _accumulated(numpy.multiply, x, axis)


@_along
def logcumsumexp(x: Any, axis: int) -> Any:
    """log(cumsum(exp(x))), by pairwise logaddexp and so without overflow."""
    if x.dtype.kind != "c":
        return numpy.logaddexp.accumulate(x, axis)
    out = numpy.moveaxis(x.copy(), axis, 0)
    for i in range(1, len(out)):
        out[i] = logaddexp(out[i - 1], out[i])
    return numpy.moveaxis(out, 0, axis)


@_along
def cumextreme(x: Any, axis: int, largest: bool) -> tuple:
    """Cumulative maximum (or minimum) and the last index where it occurred; a nan stays the extreme."""
    values = (numpy.maximum if largest else numpy.minimum).accumulate(x, axis)
    places = numpy.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return values, numpy.maximum.accumulate(numpy.where((x == values) | (x != x), places, 0), axis)


@_along
def softmax(x: Any, axis: int) -> Any:
    """exp(x) / sum(exp(x)) along one axis, with the maximum subtracted first."""
    found = fused.each_row("softmax", axis, x)
    return _in_rows(x, axis, False) if found is None else found


@_along
def log_softmax(x: Any, axis: int) -> Any:
    """log(softmax(x)), computed from the logarithm of the sum rather than from the quotient."""
    found = fused.each_row("log_softmax", axis, x)
    return _in_rows(x, axis, True) if found is None else found


def _in_rows(x: Any, axis: int, logarithm: bool) -> Any:
    """Softmax or log-softmax in blocks of rows that stay in the cache."""
    if x.size <= 65536:
        return _exponentials(x, axis, logarithm) if x.size else numpy.empty_like(x)
    out = numpy.empty_like(x)
    last = axis == x.ndim - 1
    rows, results = (x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1])) if last and x.flags.c_contiguous else (x, out)
    axis, step = (1, numpy.maximum(1, 65536 // x.shape[-1])) if rows is not x else (axis, len(x))
    for i in range(0, len(rows), step):
        _exponentials(rows[i : i + step], axis, logarithm, results[i : i + step])
    return out


def _exponentials(x: Any, axis: int, logarithm: bool, out: Any = None) -> Any:
    out = numpy.subtract(x, max(x, axis, True), out=out)
    if logarithm:
        out -= numpy.log(sum(numpy.exp(out), axis, True))
    else:
        numpy.exp(out, out=out)
        out *= 1 / sum(out, axis, True)
    return out


# -- counting ------------------------------------------------------------------------------------------------------------------


def count_integers(x: Any, weights: Any = None, least: int = 0) -> Any:
    """Count the occurrences of 0, 1, 2, ..., or sum their weights; Refused unless `x` is 1-d, integer and non-negative."""
    if x.dtype.kind not in "iu":
        raise Refused("only integers can be counted", NotImplementedError)
    if x.ndim != 1 or x.size and x.min() < 0:
        raise Refused("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != x.shape:
        raise Refused("weights should be 1-d and have the same length as input")
    out = module_of(x).bincount(x, weights, least)
    return out.astype(weights.dtype) if weights is not None and weights.dtype == numpy.float32 else out


def histogram(x: Any, bins: int, low: float, high: float) -> Any:
    """Count the elements in each of `bins` equal bins, the last one closed; equal bounds mean the data's own range."""
    if bins <= 0:
        raise Refused(f"bins must be > 0, but got {bins}")
    if low > high:
        raise Refused("max must be larger than min")
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise Refused(f"range of [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    low, high, n = (x.dtype.type(a) for a in (low, high, bins))  # PyTorch rounds in this order and precision
    if isinstance(x, numpy.ndarray):
        inside = x[(x >= low) & (x <= high)]
        places = numpy.minimum(((inside - low) * n / (high - low)).astype(numpy.int64), bins - 1)
        return numpy.bincount(places[places >= 0], minlength=bins).astype(x.dtype)  # half precision may overflow
    lib = module_of(x)
    places = lib.minimum((x - low) * n / (high - low), bins - 1)
    places = lib.where((x >= low) & (x <= high), places, bins).astype(numpy.int64)  # one more bin for those outside
    counts = lib.zeros(bins + 1, numpy.int64)
    lib.add.at(counts, places.reshape(-1), 1)
    return counts[:-1].astype(x.dtype)


def search(ordered: Any, values: Any, right: bool = False) -> Any:
    """Return where `values` would be inserted into the sorted last axis: before equal elements, or after them with `right`."""
    ordered, values = (x.astype(numpy.float32) if x.dtype.kind == "V" else x for x in (ordered, values))  # bfloat16 nan is not sorted last
    if ordered.ndim == 1:
        return _place(ordered, values, right)
    if ordered.shape[:-1] != values.shape[:-1]:
        raise Refused(
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, "
            f"but we got boundaries tensor {list(ordered.shape)} and input value tensor {list(values.shape)}"
        )
    if not isinstance(ordered, numpy.ndarray):
        return _bisect(ordered, values, right)
    rows = (x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) for x in (ordered, values))
    found = [_place(o, v, right) for o, v in zip(*rows, strict=True)]
    return numpy.array(found, numpy.int64).reshape(values.shape)


def _place(ordered: Any, values: Any, right: bool) -> Any:
    if isinstance(ordered, numpy.ndarray) and (ordered[1:] >= ordered[:-1]).all() and (ordered[:1] == ordered[:1]).all():
        return numpy.searchsorted(ordered, values, "right" if right else "left")
    return _bisect(ordered, values, right)


def _bisect(ordered: Any, values: Any, right: bool) -> Any:
    """Search as PyTorch does, also for nans, which NumPy sorts last, and in what is not sorted."""
    lib, n = module_of(ordered), ordered.shape[-1]
    low, high = lib.zeros(values.shape, numpy.int64), lib.full(values.shape, n, numpy.int64)
    for _ in range(n.bit_length()):
        apart, mid = low < high, (low + high) // 2
        at = lib.minimum(mid, n - 1)
        at = ordered[at] if ordered.ndim == 1 else lib.take_along_axis(ordered, at, -1)
        before = at > values if right else at >= values
        low, high = lib.where(apart & ~before, mid + 1, low), lib.where(apart & before, mid, high)
    return low
