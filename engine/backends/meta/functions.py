"""Implementations of functions of arrays without memory, by kind: they find a result's shape, dtype and strides at little cost.

Elementwise functions, reductions and scans run on one-element arrays, which gives the dtypes and the errors; the shape follows from the
kind. Functions of other kinds compute with zeros, and the values are dropped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from .array import Meta, axes_among, blank, ordered


def within(x: Any) -> Iterator:
    """Yield the arrays among arguments, also inside tuples and lists."""
    if isinstance(x, numpy.ndarray):
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from within(item)


def changed(x: Any, fn: Callable) -> Any:
    """Apply `fn` to each array in nested tuples, lists and dicts."""
    if isinstance(x, numpy.ndarray):
        return fn(x)
    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return type(x)(changed(v, fn) for v in x)
    return {k: changed(v, fn) for k, v in x.items()} if isinstance(x, dict) else x


def marked(x: Any) -> Any:
    """Replace results by arrays without memory, also inside tuples and lists."""
    if x.__class__ is Meta:
        return x
    if isinstance(x, (numpy.ndarray, numpy.generic)):
        return blank(x.shape, x.dtype, x.strides)
    return type(x)(map(marked, x)) if isinstance(x, (tuple, list)) and not hasattr(x, "_fields") else x


def zeros_of(x: numpy.ndarray) -> numpy.ndarray:
    """View an array without memory as an ordinary array, whose elements are zeros."""
    return x.view(numpy.ndarray)


def dropped(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function on zeros and drop the values of its results."""
    return marked(fn(*changed(args, zeros_of), **changed(kwargs, zeros_of)))


def _single(x: numpy.ndarray) -> numpy.ndarray:
    """Return a one-element array of the same rank and dtype."""
    return numpy.ones((1,) * x.ndim, x.dtype) if x.dtype.kind != "V" else numpy.zeros((1,) * x.ndim, x.dtype)


def elementwise(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """Call an elementwise function: each element of the result depends on one element of each array."""
    arrays = [*within(args), *within(tuple(kwargs.values()))]
    if not arrays:
        return fn(*args, **kwargs)
    shape = numpy.broadcast_shapes(*[a.shape for a in arrays])
    found = fn(*changed(args, _single), **changed(kwargs, _single))
    axes = axes_among(arrays, shape)
    made = lambda x: ordered(shape, x.dtype, axes)  # noqa: E731
    return tuple(map(made, found)) if isinstance(found, tuple) else made(found)


def reduced(fn: Callable, /, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a reduction with parameters named `axis` and `keepdims`."""
    given = arguments(fn, (x, *args), kwargs)
    axis, keepdims = given.get("axis"), bool(given.get("keepdims", False))
    axes = tuple(range(x.ndim)) if axis is None else numpy.lib.array_utils.normalize_axis_tuple(axis, x.ndim) if x.ndim else ()
    sizes = tuple(min(n, 1) if i in axes else 1 for i, n in enumerate(x.shape))
    found = fn(_single(x) if 0 not in sizes else numpy.ones(sizes, x.dtype), *args, **kwargs)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)
    order = [i for i in axes_among([x], x.shape) if keepdims or i not in axes]
    places = sorted(order)
    made = lambda y: ordered(shape, y.dtype, tuple(places.index(i) for i in order))  # noqa: E731
    return tuple(map(made, found)) if isinstance(found, tuple) else made(found)


_parameters = functools.cache(inspect.signature)


def arguments(fn: Callable, args: tuple, kwargs: dict) -> dict:
    """Return the arguments of a call by parameter name."""
    if getattr(fn, "__name__", "") == "reduce":  # NumPy's has no signature
        return {**dict(zip(("array", "axis", "dtype", "out", "keepdims"), args, strict=False)), **kwargs}
    return _parameters(fn).bind(*args, **kwargs).arguments


def alike(fn: Callable, /, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function whose results have the shape of its first array."""
    found = fn(_single(x), *changed(args, _single), **kwargs)
    made = lambda y: blank(x.shape, y.dtype)  # noqa: E731
    return tuple(map(made, found)) if isinstance(found, tuple) else made(found)


def own(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """Call the CPU's function itself, which only uses strides, methods and other functions of arrays."""
    return getattr(fn, "_implementation", fn)(*args, **kwargs)
