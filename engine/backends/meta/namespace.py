"""The array namespace of the device "meta": the kind of each function, and shape rules for those that fit none.

Functions that only return views use the CPU's code; functions without a rule compute with zeros, and the values are dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from ...base.layout import blank as in_format
from ...base.layout import preserve_format
from .. import cpu
from ..kernels_conv import check
from ..primitives import of_kind
from ..products import columns
from ..windows import place
from .array import Meta, NoData, axes_among, blank, ordered
from .functions import alike, arguments, changed, dropped, elementwise, marked, own, reduced, within, zeros_of

RULES: dict[str, Callable] = {}  # name -> function of arrays of which at least one has no memory


def rule(*names: str) -> Callable:
    """Register the decorated function under these names; with several names, it receives the CPU's function as its first argument."""

    def add(fn: Callable) -> Callable:
        for name in names:
            RULES[name] = functools.partial(fn, getattr(cpu, name)) if len(names) > 1 else fn
        return fn

    return add


class Namespace:
    """The backends' functions for arrays without memory."""

    def __getattr__(self, name: str) -> Any:
        known = getattr(cpu, name)
        if name.startswith("__") or not callable(known):
            return known
        found = self.__dict__[name] = RULES.get(name) or functools.partial(dropped, known)
        return found

    def run(self, fn: Callable, args: Any, kwargs: Any) -> Any:
        """Run an op's `forward`, or a rule, on this namespace, or on zeros if its code reads values."""
        try:
            return marked(fn(self, *args, **kwargs))
        except NoData:
            return dropped(functools.partial(fn, cpu), *args, **kwargs)

    def __repr__(self) -> str:
        return "<namespace of arrays without memory>"


space = Namespace()


def called(func: Callable, args: Any, kwargs: Any) -> Any:
    """Call NumPy's function `func`, by the rule of its name if there is one."""
    found = RULES.get(getattr(func, "__name__", ""))
    if found is None:
        return dropped(func, *args, **kwargs)
    return found.func(func, *args, **kwargs) if isinstance(found, functools.partial) else found(*args, **kwargs)


def universal(ufunc: Any, method: str, inputs: tuple, kwargs: dict) -> Any:
    """Call a NumPy universal function, or a method of it such as `reduce` or `accumulate`."""
    if method == "at":
        return None
    if ufunc is numpy.matmul and method == "__call__":
        return matmul(*inputs)
    if method == "__call__" and ufunc.signature is None:
        return elementwise(ufunc, *inputs, **kwargs)
    if method == "reduce":
        return reduced(ufunc.reduce, *inputs, **{"axis": 0, **kwargs})
    if method == "accumulate":
        return alike(ufunc.accumulate, *inputs, **kwargs)
    return dropped(getattr(ufunc, method), *inputs, **kwargs)


# -- kinds of functions ------------------------------------------------------------------------------------------------------

rule(*of_kind("elementwise"), "masked_fill", "astype", "copy")(elementwise)
rule("all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "prod")(reduced)
rule("std", "sum", "var", "vector_norm")(reduced)
rule("argsort", "cumextreme", "cumprod", "cumsum", "log_softmax", "logcumsumexp", "roll", "softmax", "sort", "sorted")(alike)


@rule("flip")
def flip(x: Any, axis: Any = None) -> Meta:
    cpu.flip(numpy.ones((1,) * x.ndim, bool), axis)  # raises its errors
    return x.copy("K")


@rule("tril", "triu")
def triangle(fn: Callable, /, x: Any, k: int = 0) -> Any:
    return blank(x.shape, x.dtype)


# -- views -------------------------------------------------------------------------------------------------------------------


rule(
    "contract", "copied", "diagonal", "expand_dims", "linear", "matrix_transpose", "moveaxis", "real", "reshape", "spread_to",
    "squeeze", "strided", "strided_view", "swapaxes", "transpose", "view", "view_as_complex", "view_as_real", "windows",
)(own)  # fmt: skip


@rule("asarray")
def asarray(x: Any, dtype: Any = None) -> Meta:
    return marked(x if dtype is None else x.astype(dtype, copy=False)) if x.__class__ is Meta else marked(numpy.asarray(x, dtype))


@rule("ascontiguousarray")
def ascontiguousarray(x: Any) -> Any:
    return x if x.flags.c_contiguous else x.copy()


@rule("imag")
def imag(x: Any) -> Any:
    return x.imag if x.dtype.kind == "c" else cpu.imag(x)


@rule("broadcast_to")
def broadcast_to(x: Any, shape: Any, subok: bool = False) -> Any:
    shape, lead = tuple(shape), len(shape) - x.ndim
    if numpy.broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {shape}")
    strides = [0 if have != want else s for have, want, s in zip(x.shape, shape[lead:], x.strides, strict=True)]
    return cpu.strided(x, shape, (*(0,) * lead, *strides))


@rule("read_through")
def read_through(x: Any, path: tuple) -> Any:
    for op, attrs in path:
        x = op.forward(space, x, **attrs)
    return x


@rule("write_through")
def write_through(x: Any, value: Any, path: tuple) -> Meta:
    return x.copy("K")


def taken(x: Meta, index: tuple) -> Any:
    """`x[index]` for an index that contains arrays; NotImplementedError for a mask on the device "meta"."""
    if any(isinstance(i, Meta) and i.dtype == bool for i in index):
        raise NotImplementedError("the shape of what a mask on the device 'meta' selects is not known")
    places = numpy.lib.stride_tricks.as_strided(numpy.zeros(1, bool), x.shape, (0,) * x.ndim)
    return blank(places[tuple(changed(index, zeros_of))].shape, x.dtype)


# -- new arrays --------------------------------------------------------------------------------------------------------------


@rule("empty")
def empty(shape: Any, dtype: Any = None, order: Any = "C") -> Meta:
    return blank(shape, dtype)


rule("zeros")(empty)
rule("ones")(empty)


@rule("full")
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> Meta:
    return blank(shape, dtype if dtype is not None else numpy.asarray(fill_value).dtype)


@rule("empty_like", "zeros_like", "ones_like", "full_like")
def like(fn: Callable, /, x: Any, *args: Any, **kwargs: Any) -> Meta:
    given = arguments(fn, (x, *args), kwargs)
    d, shape = given.get("dtype"), given.get("shape")
    d = x.dtype if d is None else d
    if shape is not None or given.get("order") == "C":
        return blank(x.shape if shape is None else shape, d)
    return ordered(x.shape, d, axes_among([x], x.shape))


@rule("new_zeros")
def new_zeros(beside: Any, shape: Any, dtype: Any = None) -> Meta:
    return blank(shape, dtype or beside.dtype)


@rule("laid_out")
def laid_out(x: Any, format: Any) -> Meta:
    return x.copy("K") if format is preserve_format else in_format(blank, x.shape, x.dtype, format)


@rule("concatenate", "stack")
def joined(fn: Callable, /, arrays: Any, axis: int = 0, **kwargs: Any) -> Meta:
    rows = [numpy.lib.stride_tricks.as_strided(numpy.zeros(1, a.dtype), a.shape, (0,) * a.ndim) for a in arrays]
    first = rows[0]
    if fn.__name__ == "stack":
        if len({a.shape for a in rows}) > 1:
            raise ValueError("all input arrays must have the same shape")
        at = numpy.lib.array_utils.normalize_axis_index(axis, first.ndim + 1)
        shape = (*first.shape[:at], len(rows), *first.shape[at:])
    else:
        at = numpy.lib.array_utils.normalize_axis_index(axis, first.ndim)
        others = {(*a.shape[:at], *a.shape[at + 1 :]) for a in rows}
        if len(others) > 1:
            raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
        shape = (*first.shape[:at], sum(a.shape[at] for a in rows), *first.shape[at + 1 :])
    return blank(shape, numpy.result_type(*[a.dtype for a in rows]))


# -- products ----------------------------------------------------------------------------------------------------------------


@rule("matmul")
def matmul(a: Any, b: Any) -> Meta:
    left, right = (a[None] if a.ndim == 1 else a), (b[..., None] if b.ndim == 1 else b)
    if not a.ndim or not b.ndim or left.shape[-1] != right.shape[-2]:
        raise ValueError(f"matmul: the inner sizes of {a.shape} and {b.shape} differ")
    shape = (*numpy.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])
    kept = shape[: len(shape) - 2] + ((shape[-2],) if a.ndim > 1 else ()) + ((shape[-1],) if b.ndim > 1 else ())
    return blank(kept, numpy.result_type(a.dtype, b.dtype))


def dot(a: Any, b: Any) -> Any:
    return matmul(a, b) if a.ndim and b.ndim and b.ndim < 3 else dropped(numpy.dot, a, b)


@rule("einsum")
def einsum(equation: str, *operands: Any, **kwargs: Any) -> Meta:
    terms, out = equation.replace(" ", "").split("->")
    sizes: dict[str, int] = {}
    for term, a in zip(terms.split(","), operands, strict=True):
        for c, n in zip(term, a.shape, strict=True):
            if sizes.setdefault(c, n) != n and 1 not in (n, sizes[c]):
                raise ValueError(f"operands do not agree in the size of {c!r}: {n} and {sizes[c]}")
            sizes[c] = max(n, sizes[c])
    return blank([sizes[c] for c in out], numpy.result_type(*[a.dtype for a in operands]))


@rule("convolution")
def convolution(x: Any, weight: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None) -> Meta:
    check(x.shape, weight.shape, bias, groups)
    n = weight.ndim - 2
    at = place(x.shape[-n:], weight.shape[2:], stride, padding, dilation)
    return blank((*x.shape[: x.ndim - n - 1], weight.shape[0], *at.out), x.dtype)


@rule("convolution_input", "convolution_weight")
def convolution_back(fn: Callable, /, g: Any, other: Any, size: tuple, *rest: Any, **kwargs: Any) -> Meta:
    return blank(size, g.dtype)


# -- layers ------------------------------------------------------------------------------------------------------------------


@rule("normalize")
def normalize(x: Any, axes: tuple, eps: float, weight: Any = None, bias: Any = None) -> tuple:
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return blank(x.shape, x.dtype), blank(kept, x.dtype), blank(kept, x.dtype)


@rule("normalize_input")
def normalize_input(g: Any, x: Any, *rest: Any, **kwargs: Any) -> Meta:
    return blank(x.shape, x.dtype)


@rule("normalize_weight")
def normalize_weight(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Meta:
    return blank([n for i, n in enumerate(x.shape) if i not in axes], x.dtype)


@rule("log_sum_exp")
def log_sum_exp(x: Any) -> Meta:
    axis = min(x.ndim - 1, 1)
    return blank([1 if i == axis else n for i, n in enumerate(x.shape)], x.dtype)


@rule("softmax_minus")
def softmax_minus(x: Any, *rest: Any) -> Meta:
    return blank(x.shape, x.dtype)


@rule("class_spread")
def class_spread(g: Any, target: Any, weight: Any, size: tuple, ignore: int = -100) -> Meta:
    return blank(size, g.dtype)


@rule("rows", "read_rows")
def rows(fn: Callable, /, weight: Any, index: Any, *rest: Any, **kwargs: Any) -> Meta:
    return blank((*index.shape, *weight.shape[1:]), weight.dtype)


@rule("add_rows")
def add_rows(value: Any, index: Any, count: int, *rest: Any, **kwargs: Any) -> Meta:
    return blank((count, value.shape[-1]), value.dtype)


@rule("put_zeros")
def put_zeros(value: Any, shape: tuple, index: Any) -> Meta:
    return blank(shape, value.dtype)


# -- factors of matrices -----------------------------------------------------------------------------------------------------


@rule(
    "cholesky", "cholesky_ex", "cholesky_inverse", "cofactor", "det", "eig", "eigh", "first_zero", "inv", "ldl_factor", "lu_factor",
    "matrix_exp", "qr", "reflections", "slogdet", "svd",
)  # fmt: skip
def of_matrices(fn: Callable, /, x: Any, *rest: Any, **kwargs: Any) -> Any:
    """Call a function of stacked matrices on one identity matrix, and add the leading dimensions to the results."""
    found, lead = fn(numpy.eye(*x.shape[-2:], dtype=x.dtype), *rest, **kwargs), x.shape[:-2]

    def made(y: Any) -> Meta:
        y = numpy.asarray(y)
        axes = tuple(range(len(lead))) + tuple(len(lead) + axis for axis in axes_among([y], y.shape))
        return ordered((*lead, *y.shape), y.dtype, axes)

    return tuple(map(made, found)) if isinstance(found, tuple) else made(found)


@rule("permutation")
def permutation(pivots: Any, m: int, dtype: Any) -> Meta:
    return blank((*pivots.shape[:-1], m, m), dtype)


@rule("solve_matrix", "solve_triangle")
def solve_matrix(fn: Callable, /, a: Any, b: Any, *how: bool) -> Meta:
    shape = (*numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    return columns(blank(shape, a.dtype))


@rule("ldl_solve")
def ldl_solve(packed: Any, pivots: Any, b: Any, hermitian: bool = False) -> Meta:
    return RULES["solve_matrix"](packed, b)  # with pivots of 0, LAPACK would access memory outside the matrix


# -- shapes that depend on values --------------------------------------------------------------------------------------------


@rule("nonzero", "unique", "count_integers", "bincount")
def unknown(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    if not any(a.__class__ is Meta for a in within((args, tuple(kwargs.values())))):
        return fn(*args, **kwargs)
    raise NotImplementedError(f"{fn.__name__}: the shape of the result depends on the data, and a meta tensor has none")
