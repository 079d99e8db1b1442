"""Batching rules for shapes, joins and padding; they return views where the function returns one for a single sample."""

from __future__ import annotations

from typing import Any

import numpy

from .array import space
from .namespace import Namespace, apply, rule
from .sample import axes_of, seen, whole


@rule("reshape")
def reshape(xp: Namespace, x: Any, shape: Any) -> Any:
    shape = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    return seen(xp, x, x.inner.reshape((x.inner.shape[0], *_complete(x.shape, shape))))


def _complete(have: tuple, want: tuple) -> tuple:
    """Return the shape with its -1 filled in; NumPy's ValueError if it does not fit."""
    size = int(numpy.prod(have, dtype=int))
    known = int(numpy.prod([n for n in want if n != -1], dtype=int))
    filled = tuple(size // known if n == -1 and known else n for n in want)
    if int(numpy.prod(filled, dtype=int)) != size or want.count(-1) > 1:
        raise ValueError(f"cannot reshape array of size {size} into shape {want}")
    return filled


@rule("view")
def view(xp: Namespace, x: Any, shape: Any = None, dtype: Any = None) -> Any:
    if dtype is not None:
        return seen(xp, x, space(x.inner).view(x.inner, dtype=dtype))
    shape = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    return seen(xp, x, space(x.inner).view(x.inner, (x.inner.shape[0], *_complete(x.shape, shape))))


@rule("expand_dims")
def expand_dims(xp: Namespace, x: Any, axis: Any) -> Any:
    axes = (axis,) if hasattr(axis, "__index__") else tuple(axis)
    n = x.ndim + len(axes)
    for a in axes:
        if not -n <= a < n:
            raise numpy.exceptions.AxisError(a, n)
    places = {a % n for a in axes}
    sizes = iter(x.shape)
    return reshape(xp, x, tuple(1 if i in places else next(sizes) for i in range(n)))


@rule("squeeze")
def squeeze(xp: Namespace, x: Any, axis: Any = None) -> Any:
    dropped = (
        [i + 1 for i, n in enumerate(x.shape) if n == 1] if axis is None else [*axes_of((axis,) if isinstance(axis, int) else axis, x.ndim)]
    )
    return reshape(xp, x, tuple(n for i, n in enumerate(x.shape) if i + 1 not in dropped))


@rule("transpose")
def transpose(xp: Namespace, x: Any, axes: Any) -> Any:
    if len(axes) != x.ndim:
        raise ValueError("axes don't match array")
    return seen(xp, x, x.inner.transpose((0, *axes_of(axes, x.ndim))) if x.ndim else x.inner)


@rule("swapaxes")
def swapaxes(xp: Namespace, x: Any, a: int, b: int) -> Any:
    return seen(xp, x, x.inner.swapaxes(*axes_of((a, b), x.ndim))) if x.ndim else x[...]


@rule("matrix_transpose")
def matrix_transpose(xp: Namespace, x: Any) -> Any:
    return swapaxes(xp, x, -1, -2)


@rule("moveaxis")
def moveaxis(xp: Namespace, x: Any, source: Any, destination: Any) -> Any:
    return seen(xp, x, space(x.inner).moveaxis(x.inner, axes_of(source, x.ndim), axes_of(destination, x.ndim))) if x.ndim else x[...]


@rule("broadcast_to", "spread_to")
def broadcast_to(name: str, xp: Namespace, x: Any, shape: Any) -> Any:
    shape = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    inner, lead = x.inner, len(shape) - x.ndim
    if lead < 0:
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {shape}")
    inner = inner.reshape((inner.shape[0], *(1,) * lead, *x.shape)) if lead else inner
    return seen(xp, x, apply(name, (inner, (inner.shape[0], *shape)), {}))


@rule("diagonal")
def diagonal(xp: Namespace, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return seen(xp, x, space(x.inner).diagonal(x.inner, offset, *axes_of((dim1, dim2), x.ndim)))


@rule("put_diagonal")
def put_diagonal(xp: Namespace, value: Any, shape: tuple, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    size, axes = value.inner.shape[0], axes_of((dim1, dim2), len(shape))
    return xp.level.wrap(space(value.inner).put_diagonal(value.inner, (size, *shape), offset, *axes))


@rule("windows")
def windows(xp: Namespace, x: Any, dim: int, size: int, step: int) -> Any:
    if x.ndim == 0:
        return windows(xp, reshape(xp, x, (1,)), 0, size, step)[0]
    return seen(xp, x, space(x.inner).windows(x.inner, axes_of(dim, x.ndim), size, step))


@rule("put_windows")
def put_windows(xp: Namespace, value: Any, shape: tuple, dim: int, size: int, step: int) -> Any:
    if not shape:
        return xp.each(lambda one: apply("put_windows", (one, shape, dim, size, step), {}), (value,), {})
    whole = (value.inner.shape[0], *shape)
    return xp.level.wrap(space(value.inner).put_windows(value.inner, whole, axes_of(dim, len(shape)), size, step))


@rule("flip")
def flip(xp: Namespace, x: Any, axis: Any = None) -> Any:
    return xp.level.wrap(space(x.inner).flip(x.inner, axes_of(axis, x.ndim))) if x.ndim else x.copy()


@rule("roll")
def roll(xp: Namespace, x: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return reshape(xp, roll(xp, reshape(xp, x, (-1,)), shift, 0), x.shape)
    return xp.level.wrap(space(x.inner).roll(x.inner, shift, axes_of(axis, x.ndim)))


@rule("tile")
def tile(xp: Namespace, x: Any, reps: Any) -> Any:
    reps = (reps,) if hasattr(reps, "__index__") else tuple(reps)
    n = max(len(reps), x.ndim)
    inner = x.inner.reshape((x.inner.shape[0], *(1,) * (n - x.ndim), *x.shape))
    return xp.level.wrap(space(inner).tile(inner, (1, *(1,) * (n - len(reps)), *reps)))


@rule("constant_pad", "tril", "triu", "view_as_real", "view_as_complex", "gelu_slope")
def trailing(name: str, xp: Namespace, x: Any, *rest: Any) -> Any:
    return seen(xp, x, apply(name, (x.inner, *rest), {}))


@rule("concatenate", "stack")
def joined(name: str, xp: Namespace, arrays: Any, axis: int = 0, **more: Any) -> Any:
    n = max(a.ndim for a in arrays) + (name == "stack")
    return xp.level.wrap(apply(name, ([whole(xp, a) for a in arrays], axes_of(axis, n)), more))
