"""Manipulation functions of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import engine

from ..core.tensor import Tensor
from .axes import normal
from .dtypes import alike


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Broadcast the arrays to one shape, as views."""
    shape = broadcast_shapes(*[x.shape for x in arrays])
    return tuple(broadcast_to(x, shape) for x in arrays)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the broadcast shape; () without arguments. Raises ValueError for incompatible shapes."""
    return numpy.broadcast_shapes(*shapes)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Broadcast an array to a shape, as a view. Raises ValueError for an incompatible shape."""
    if broadcast_shapes(x.shape, shape) != tuple(shape):
        raise ValueError(f"broadcast_to: the shape {tuple(x.shape)} does not broadcast to {tuple(shape)}")
    return engine.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Concatenate arrays along an axis, or flattened with `axis=None`."""
    arrays = alike(*arrays)
    if axis is None:
        return engine.cat([x.reshape(-1) for x in arrays], 0)
    normal(axis, arrays[0].ndim)
    if len({(x.ndim, *x.shape[: axis % x.ndim], *x.shape[axis % x.ndim + 1 :]) for x in arrays}) > 1:
        told = " and ".join(str(tuple(x.shape)) for x in arrays)
        raise ValueError(f"concat: the shapes differ in another dimension than {axis}: {told}")  # PyTorch accepts an empty one
    return engine.cat(arrays, axis)


def expand_dims(x: Tensor, /, axis: Any) -> Tensor:
    """Insert dimensions of length 1 at these positions of the result. Raises IndexError if out of range."""
    places = (axis,) if isinstance(axis, int) else tuple(axis)
    for place in sorted(normal(places, x.ndim + len(places))):
        x = engine.unsqueeze(x, place)
    return x


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """Reverse the elements along the axes, or along all if None."""
    return engine.flip(x, normal(axis, x.ndim))


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Move axes to new positions; the others keep their order."""
    return engine.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Permute the axes."""
    return engine.permute(x, axes)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis or of the flattened array; `repeats` is an integer or an array with one per element."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    normal(axis, x.ndim)
    if isinstance(repeats, Tensor):
        repeats = broadcast_to(repeats.to(engine.int64), (x.shape[axis],))
    return engine.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Reshape an array; one size may be -1. `copy=False` raises ValueError unless the result is a view."""
    if copy:
        return engine.reshape(x.clone(), shape)
    if copy is None:
        return engine.reshape(x, shape)
    try:
        return x.view(shape)
    except RuntimeError as error:
        raise ValueError(f"reshape: this shape takes a copy, which copy=False forbids: {error}") from None


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Roll the elements along axes, or of the flattened array with `axis=None`."""
    if axis is None:
        return engine.roll(x, shift)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    normal(axes[:1] if len(axes) == 1 else tuple(set(axes)), x.ndim)
    return engine.roll(x, (shift,) * len(axes) if isinstance(shift, int) else tuple(shift), axes)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Remove axes of length 1. Raises ValueError for other lengths."""
    axes = normal(axis, x.ndim)
    long = [a for a in axes if x.shape[a] != 1]
    if long:
        raise ValueError(f"squeeze: dimension {long[0]} has the length {x.shape[long[0]]}, only those of length 1 can be left out")
    return engine.squeeze(x, axes)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Stack arrays of one shape along a new axis."""
    return engine.stack(alike(*arrays), axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Repeat the whole array along each axis."""
    return engine.tile(x, repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Split an array into slices along an axis, as views."""
    normal(axis, x.ndim)
    return tuple(engine.unbind(x, axis))
