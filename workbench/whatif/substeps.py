"""The small steps inside one backward step (sums over broadcast axes, spreading over reduced axes, casts), with shapes and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from ..formulas.typeset import unbroadcast_axes
from ..inspector import host
from .one import One


@dataclass
class SubStep:
    """One change of shape or dtype between the gradient of the result and that of an input."""

    kind: str  # "sum": over axes that were broadcast; "spread": over axes that the op had reduced; "cast"
    sentence: str
    axes: list[int]
    before: Any
    after: Any


def sub_steps(one: One, slot: int, upstream: Any, contribution: Any, name: str) -> list[SubStep]:
    """The changes of shape and dtype on the way to input `slot`; `name` is the user's name for that input."""
    source = one.node.inputs[slot]
    raw = one.unfitted(upstream, slot)
    found: list[SubStep] = []
    if raw is None:
        return found
    before = raw
    if tuple(raw.shape) != tuple(source.shape):
        axes = unbroadcast_axes(raw.shape, source.shape)
        summed = raw.sum(axis=tuple(axes)).reshape(source.shape)
        found.append(SubStep("sum", _summed(raw.shape, axes, name, source.shape), axes, raw, summed))
        before = summed
    elif (batch := _batched(one, slot, upstream, contribution)) is not None:
        axes = list(range(batch.ndim - len(source.shape)))
        found.append(SubStep("sum", _summed(batch.shape, axes, name, source.shape), axes, batch, contribution))
    elif (axes := _summed_inside(upstream, contribution, source.shape)) is not None:
        found.append(SubStep("sum", _summed(upstream.shape, axes, name, source.shape), axes, upstream, contribution))
    elif (axes := _spread(one, upstream, source.shape)) is not None:
        part = _part(one, upstream, contribution, axes)
        found.append(SubStep("spread", _spread_words(one, upstream.shape, axes, name, source.shape, part), axes, upstream, contribution))
    if before.dtype != source.dtype and hasattr(contribution, "dtype"):
        what = f"cast from {before.dtype.name} to {source.dtype.name}, because {name} is {source.dtype.name} and was promoted there"
        found.append(SubStep("cast", what, [], before, contribution))
    return found


def _summed(shape: tuple, axes: list[int], name: str, target: tuple) -> str:
    return f"{_shape(shape)} summed over {_axes(axes)}, because {name} {_shape(target)} was broadcast there"


def _summed_inside(upstream: Any, contribution: Any, target: tuple) -> list[int] | None:
    """The axes of the result's gradient that a rule itself sums over: for a bias, all but its own axis."""
    shape = tuple(getattr(upstream, "shape", ()))
    if contribution is None or len(target) > len(shape) or numpy.prod(shape, initial=1) <= numpy.prod(target, initial=1):
        return None
    candidates = [unbroadcast_axes(shape, target) if _broadcasts(target, shape) else []]
    if len(target) == 1 and len(shape) > 1 and shape[1] == target[0]:
        candidates.append([a for a in range(len(shape)) if a != 1])
    data, wanted = host(upstream).astype(numpy.complex128 if upstream.dtype.kind == "c" else numpy.float64), host(contribution)
    for axes in candidates:
        if axes and numpy.allclose(data.sum(axis=tuple(axes)).reshape(target), wanted, rtol=1e-4, atol=1e-6, equal_nan=True):
            return axes
    return None


def _batched(one: One, slot: int, upstream: Any, contribution: Any) -> Any:
    """xᵀ @ g for each matrix of a batch, if `matmul` used one second matrix for all; its rule sums them in the product."""
    x = one.node.saved[0] if one.op.name == "matmul" and slot == 1 and one.node.saved else None
    if x is None or host(x).ndim <= host(contribution).ndim or host(contribution).ndim < 2:
        return None
    each = host(x).swapaxes(-1, -2) @ host(upstream)
    extra = tuple(range(each.ndim - host(contribution).ndim))
    return each if numpy.allclose(each.sum(axis=extra), host(contribution), rtol=1e-3, atol=1e-5, equal_nan=True) else None


def _spread(one: One, upstream: Any, target: tuple) -> list[int] | None:
    """The axes of the input that the op reduced, along which its gradient is repeated; None if it reduced none."""
    shape = tuple(getattr(upstream, "shape", ()))
    attrs = one.node.attrs
    if (
        "dim" not in attrs
        or "keepdim" not in attrs
        and "reduction" not in attrs
        or numpy.prod(shape, initial=1) >= numpy.prod(target, initial=1)
    ):
        return None
    dim = attrs["dim"]
    over = range(len(target)) if dim is None or dim == () else (dim,) if isinstance(dim, int) else dim
    axes = sorted(int(d) % max(len(target), 1) for d in over)
    kept = tuple(1 if i in axes else n for i, n in enumerate(target))
    without = tuple(n for i, n in enumerate(target) if i not in axes)
    return axes if shape in (kept, without) else None


def _part(one: One, upstream: Any, contribution: Any, axes: list[int]) -> str:
    """Which part of the gradient each element gets, in words; "" if each gets all of it."""
    data, given = host(upstream), host(contribution)
    data = numpy.broadcast_to(data.reshape([1 if a in axes else n for a, n in enumerate(given.shape)]), given.shape)
    count = numpy.prod([given.shape[a] for a in axes], dtype=int)

    def gets(factor: Any) -> bool:
        return numpy.allclose(data * factor, given, rtol=1e-3, atol=1e-6, equal_nan=True)

    if gets(1):
        return ""
    if gets(1 / count):
        return f", each element with 1/{count} of it"
    if gets(given != 0) and (numpy.count_nonzero(given, axis=tuple(axes)) <= 1).all():
        return f", to the element that {one.op.name} took, and the others get 0"
    return ", each element with its own factor"


def _spread_words(one: One, shape: tuple, axes: list[int], name: str, target: tuple, part: str) -> str:
    if len(axes) == len(target):
        return f"{_shape(shape)} is spread over all of {_shape(target)}{part}, because {one.op.name} reduced {name} to one number"
    back = "" if len(shape) == len(target) else f"gets {_axes(axes)} back, then "
    return f"{_shape(shape)} {back}is spread along {_axes(axes)} to {_shape(target)}{part}, because {one.op.name} reduced {name} there"


def _broadcasts(target: tuple, shape: tuple) -> bool:
    try:
        return numpy.broadcast_shapes(target, shape) == tuple(shape)
    except ValueError:
        return False


def _axes(axes: list[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes[:-1]))} and {axes[-1]}"


def _shape(shape: tuple) -> str:
    return str(tuple(int(n) for n in shape)) if len(shape) else "a scalar"
