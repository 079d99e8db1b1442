"""How functions of arrays without memory are done: what they give has the right shape, dtype and strides, and costs nothing.

An elementwise function, a reduction or a scan runs on arrays of one element for its dtypes and its refusals; the shape follows from its
kind. What is of no such kind computes with zeros, which are dropped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from .array import Meta, axes_among, blank, ordered


def within(x: Any) -> Iterator:
    """The arrays among arguments, also inside tuples and lists."""
    if isinstance(x, numpy.ndarray):
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from within(item)


def changed(x: Any, fn: Callable) -> Any:
    """The same tuples, lists and dicts with `fn` of each array in its place."""
    if isinstance(x, numpy.ndarray):
        return fn(x)
    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return type(x)(changed(v, fn) for v in x)
    return {k: changed(v, fn) for k, v in x.items()} if isinstance(x, dict) else x


def marked(x: Any) -> Any:
    """Results without their memory."""
    if x.__class__ is Meta:
        return x
    if isinstance(x, (numpy.ndarray, numpy.generic)):
        return blank(x.shape, x.dtype, x.strides)
    return type(x)(map(marked, x)) if isinstance(x, (tuple, list)) and not hasattr(x, "_fields") else x


def zeros_of(x: numpy.ndarray) -> numpy.ndarray:
    """What an array without memory reads as."""
    return x.view(numpy.ndarray)


def dropped(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """A function that computes with zeros, and whose values are dropped."""
    return marked(fn(*changed(args, zeros_of), **changed(kwargs, zeros_of)))


def _single(x: numpy.ndarray) -> numpy.ndarray:
    """An array of one element in place of another."""
    return numpy.ones((1,) * x.ndim, x.dtype) if x.dtype.kind != "V" else numpy.zeros((1,) * x.ndim, x.dtype)


def elementwise(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """A function of which an element of the result depends on one element of each array."""
    arrays = [*within(args), *within(tuple(kwargs.values()))]
    if not arrays:
        return fn(*args, **kwargs)
    shape = numpy.broadcast_shapes(*[a.shape for a in arrays])
    found = fn(*changed(args, _single), **changed(kwargs, _single))
    axes = axes_among(arrays, shape)
    made = lambda x: ordered(shape, x.dtype, axes)  # noqa: E731
    return tuple(map(made, found)) if isinstance(found, tuple) else made(found)


def reduced(fn: Callable, /, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A reduction whose parameters `axis` and `keepdims` have these names."""
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
    """Arguments of a call by the names of the function's parameters."""
    if getattr(fn, "__name__", "") == "reduce":  # NumPy's tells no signature
        return {**dict(zip(("array", "axis", "dtype", "out", "keepdims"), args, strict=False)), **kwargs}
    return _parameters(fn).bind(*args, **kwargs).arguments


def alike(fn: Callable, /, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A function whose results have the shape of its first array."""
    found = fn(_single(x), *changed(args, _single), **kwargs)
    made = lambda y: blank(x.shape, y.dtype)  # noqa: E731
    return tuple(map(made, found)) if isinstance(found, tuple) else made(found)


def own(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """The CPU's function as it is: it works by strides, methods and other functions of arrays."""
    return getattr(fn, "_implementation", fn)(*args, **kwargs)
