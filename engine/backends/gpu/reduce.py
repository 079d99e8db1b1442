"""Reductions by the kernels of `reduce.cu`, under the names of the array interface."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import cupy
import numpy

from ...base import dtypes
from ...base.errors import Refused
from ..reduction import _axes, _empty, count
from ..reference import _axis
from . import launch

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "prod", "std", "sum", "var", "vector_norm",
]  # fmt: skip

_ALL = [d.numpy for d in dtypes.ALL]
# dtype -> that of its sums and products, of its means, and of its norms and variances
_SUM = {d: dtypes.I64 if d.kind in "bi" else numpy.dtype("uint64") if d.kind == "u" else d for d in _ALL}
_MEAN = {d: dtypes.F64 if d.kind in "biu" else d for d in _ALL}
_REAL = _MEAN | {dtypes.complex64.numpy: dtypes.F32, dtypes.complex128.numpy: dtypes.F64}

_PLACES = ("ArgMax", "ArgMin")
_BLOCK, _VECTOR, _PARTIAL = 256, 16, 48  # threads; bytes that a thread reads at once; bytes of a partial result, at most
_BLOCKS, _THREADS = 4096, 1 << 16  # enough to occupy the largest GPUs until the end


# -- which threads reduce what -----------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """The arguments of a kernel of `reduce.cu` that depend on the shape alone."""

    kernel: str  # "rows" or "columns"
    outputs: int
    sizes: tuple[int, ...]  # runs, inner and, for rows, length
    threads: int  # of an output, or beside one another
    parts: int
    wide: bool
    grid: int
    merge: tuple[int, int]  # the grid of `merge`, and its threads beside one another


@functools.lru_cache(4096)
def form(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """Return a row-major shape as (outer, runs, inner, length), where `axes` are runs and length; None if it has no such form."""
    groups: list[list] = []  # [whether it is reduced, its size], of neighboring dimensions, the last ones first
    for d in reversed(range(len(shape))):
        if shape[d] != 1:
            if groups and groups[-1][0] == (d in axes):
                groups[-1][1] *= shape[d]
            else:
                groups.append([d in axes, shape[d]])
    if not groups or not groups[0][0]:
        groups.insert(0, [True, 1])
    if len(groups) > 4:
        return None
    length, inner, runs, outer = [size for _, size in groups] + [1] * (4 - len(groups))
    return outer, runs, inner, length


@functools.lru_cache(4096)
def _plan(sizes: tuple[int, int, int, int], vector: int, aligned: bool) -> Plan:
    outer, runs, inner, length = sizes
    outputs = outer * inner
    beside = power(outputs, 8)
    merge = -(-outputs // beside), beside
    if length == 1 and outputs > 1:
        wide = aligned and inner % vector == 0
        vectors = outputs // vector if wide else outputs
        side = power(vectors, 32)
        side = _BLOCK // power(runs // 4, _BLOCK // side)
        blocks = -(-vectors // side)
        parts = clamp(1, -(-_BLOCKS // blocks), runs * side // (16 * _BLOCK))
        return Plan("columns", outputs, (runs, inner), side, parts, wide, blocks * parts, merge)
    wide = aligned and length % vector == 0
    vectors = runs * length // (vector if wide else 1)
    lanes = power(clamp(vectors // 8, _THREADS // outputs, vectors), _BLOCK)
    parts = clamp(1, -(-_BLOCKS // outputs), vectors // (8 * _BLOCK)) if lanes == _BLOCK else 1
    return Plan("rows", outputs, (runs, inner, length), lanes, parts, wide, -(-outputs * parts * lanes // _BLOCK), merge)


def power(n: int, most: int) -> int:
    """Return the smallest power of 2 that is at least `n`, or `most` if that is smaller."""
    return 1 << (n - 1).bit_length() if 1 < n < most else most if n > 1 else 1


def clamp(low: int, n: int, high: int) -> int:
    """Return `n`, but at least `low` and at most `high`; `low` if `high` is less than that."""
    return sorted((low, n, high))[1] if low <= high else low


# -- launches ----------------------------------------------------------------------------------------------------------------


@functools.cache
def _kernel(kind: str, dtype: numpy.dtype, name: str) -> launch.Kernel:
    return launch.Kernel(launch.source("reduce.cu", T=launch.TYPES[dtype.name], R=f"struct {kind}"), name)


def _run(kind: str, x: Any, axes: tuple, out: Any, p: float, y: Any = None, mean: Any = None, rstd: Any = None) -> None:
    """Reduce row-major `x`, or `x` and `y`, into `out`; `kind` is a struct of `reduce.cu`."""
    seen = form(x.shape, axes)
    if seen is None:
        last = (*(d for d in range(x.ndim) if d not in axes), *axes)
        x, y = (None if a is None else cupy.ascontiguousarray(a.transpose(last)) for a in (x, y))
        outer = math.prod(x.shape[: x.ndim - len(axes)])
        seen = outer, 1, 1, x.size // outer
    pointer, beside = x.data.ptr, 0 if y is None else y.data.ptr
    plan = _plan(seen, _VECTOR // x.dtype.itemsize, (pointer | beside) % _VECTOR == 0)
    partial = cupy.ndarray(plan.parts * plan.outputs * _PARTIAL, "uint8") if plan.parts > 1 else None
    given = (
        *[0 if a is None else a.data.ptr for a in (mean, rstd)],
        p,
        out.data.ptr,
        0 if partial is None else partial.data.ptr,
        plan.outputs,
    )
    _kernel(kind, x.dtype, plan.kernel)(plan.grid, _BLOCK, pointer, beside, *given, *plan.sizes, plan.threads, plan.parts, plan.wide)
    if plan.parts > 1:
        _kernel(kind, x.dtype, "merge")(plan.merge[0], _BLOCK, *given, plan.merge[1], plan.parts)


@functools.lru_cache(4096)
def _target(shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes to reduce, non-negative, and the shape of the result."""
    axes = _axes(axis, len(shape))
    return axes, tuple([1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes])


def _reduced(kind: str, x: Any, axis: Any, keepdims: bool, dtype: Any, p: float = 1.0) -> Any:
    if not x.ndim and axis is not None:  # like one dimension of size 1
        for d in (axis,) if axis.__class__ is int else axis:
            _axis(x, d)
        axis = None
    axes, shape = _target(x.shape, axis if axis is None or axis.__class__ is int else tuple(axis), keepdims)
    if not x.flags.c_contiguous:
        order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
        turned = x.transpose(order)
        if turned.flags.c_contiguous and (kind not in _PLACES or len(axes) == 1):  # another order in memory, without gaps
            found = _reduced(kind, turned, tuple([order.index(d) for d in axes]), True, dtype, p)
            return found.transpose([order.index(d) for d in range(x.ndim)]).reshape(shape)
        x = cupy.ascontiguousarray(x)
    out = cupy.ndarray(shape, dtype)
    if out.size:
        _run(kind, x, axes, out, p)
    return out


# -- the array interface -----------------------------------------------------------------------------------------------------


def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Sum over axes; integers are summed in 64 bits, unless `dtype` is given."""
    if dtype is None or (dtype := numpy.dtype(dtype)) == _SUM[x.dtype]:
        return _reduced("Sum", x, axis, keepdims, _SUM[x.dtype])
    x = x.astype(dtype)
    return _reduced("Sum", x, axis, keepdims, _SUM[dtype]).astype(dtype, copy=False)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _reduced("Mean", x, axis, keepdims, _MEAN[x.dtype], count(x, axis))


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _reduced("Prod", x, axis, keepdims, _SUM[x.dtype])


def count_nonzero(x: Any, axis: Any = None) -> Any:
    return _reduced("Count", x, axis, False, dtypes.I64)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _reduced("All", x, axis, keepdims, x.dtype if x.dtype == numpy.uint8 else dtypes.BOOL_NP)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _reduced("Any", x, axis, keepdims, x.dtype if x.dtype == numpy.uint8 else dtypes.BOOL_NP)


def var(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Variance: the sum of squared distances from the mean, divided by the count minus `correction`."""
    return _spread("Var", x, axis, correction, keepdims)


def std(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Standard deviation: the square root of `var`."""
    return _spread("Std", x, axis, correction, keepdims)


def _spread(kind: str, x: Any, axis: Any, correction: float, keepdims: bool) -> Any:
    n = count(x, axis)
    return _reduced(kind, x, axis, keepdims, _REAL[x.dtype], n - correction if n > correction else 0.0)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))), without overflow; -inf for no elements."""
    return _reduced("LogSumExp", x, axis, keepdims, _MEAN[x.dtype])


def vector_norm(x: Any, ord: float = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    """Vector norm (sum |x|^ord)^(1/ord); the largest or smallest |x| for inf and -inf, the count of non-zeros for 0.

    Refused for a negative or infinite `ord` of an empty tensor.
    """
    n = count(x, axis)
    if n == 0 and (ord < 0 or ord == math.inf):
        raise Refused(f"cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    if ord == 0:
        return _reduced("Count", x, axis, keepdims, dtypes.I64).astype(_REAL[x.dtype])
    kind = "Norm1" if ord == 1 or n == 1 else "Norm2" if ord == 2 else "NormP"  # the power of one element could overflow
    if math.isinf(ord):
        kind = "NormMax" if ord > 0 else "NormMin"
    return _reduced(kind, x, axis, keepdims, _REAL[x.dtype], ord)


def _extreme(kind: str, x: Any, axis: Any, keepdims: bool) -> Any:
    """Raises RuntimeError or IndexError if there are no elements."""
    if not count(x, axis):
        raise _empty(x, axis, IndexError if kind in _PLACES else RuntimeError)
    return _reduced(kind, x, axis, keepdims, dtypes.I64 if kind in _PLACES else x.dtype)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme("Max", x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme("Min", x, axis, keepdims)


def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme("ArgMax", x, axis, keepdims)


def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extreme("ArgMin", x, axis, keepdims)


# -- statistics of normalizations --------------------------------------------------------------------------------------------


def moments(x: Any, axes: tuple, eps: float) -> Any:
    """Return the means over `axes` of row-major `x`, 1 / sqrt(variance + eps), and what rounding took off the means: (3, outputs)."""
    return _statistics("Moments", 3, x, axes, eps)


def slopes(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    """Return the sums over `axes` of `g` and of g (x - mean) rstd, where mean and rstd have one element for each output: (2, outputs)."""
    return _statistics("Slopes", 2, g, axes, math.prod([x.shape[d] for d in axes]), x, mean, rstd)


def row_slopes(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    """Return the sums over `axes` of g (x - mean) rstd, where mean and rstd have one element for each of those summed: (1, outputs)."""
    return _statistics("RowSlopes", 1, g, axes, 1.0, x, mean, rstd)


def _statistics(kind: str, planes: int, x: Any, axes: tuple, p: float, *beside: Any) -> Any:
    outputs = math.prod([n for d, n in enumerate(x.shape) if d not in axes])
    out = cupy.ndarray((planes, outputs), dtypes.F64 if x.dtype == dtypes.F64 else dtypes.F32)
    _run(kind, x, axes, out, p, *beside)
    return out
