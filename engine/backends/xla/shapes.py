"""New arrays, casts, views, joins and padding of traced arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy
from jax import lax
from numpy.lib.stride_tricks import as_strided

from .. import reference
from .array import Traced, raw, wrap
from .namespace import OWN, of_arrays, rule, space

# -- new arrays and casts ----------------------------------------------------------------------------------------------------


def _maker(fn: Any) -> Any:
    return lambda *args, order="C", **kwargs: wrap(fn(*map(raw, args), **{k: raw(v) for k, v in kwargs.items()}))


for _name in ("zeros", "ones", "full", "empty", "arange", "eye", "zeros_like", "ones_like", "full_like", "empty_like"):
    OWN[_name] = _maker(getattr(jnp, _name))


@of_arrays
def asarray(x: Any, dtype: Any = None) -> Any:
    if x.__class__ is not Traced:
        return wrap(jnp.asarray(raw(x), dtype))
    return x if dtype is None else x.astype(dtype, copy=False)


@of_arrays
def array(x: Any, dtype: Any = None, copy: bool = True, order: str = "K") -> Any:
    x = asarray(x, dtype)
    return x.copy() if copy else x


@of_arrays
def ascontiguousarray(x: Any) -> Any:
    return x if x.flags.c_contiguous else x.copy()


@of_arrays
def astype(x: Any, dtype: Any) -> Any:
    return asarray(x).astype(dtype, copy=False)


@of_arrays
def copy(x: Any) -> Any:
    return asarray(x).copy()


@of_arrays
def copyto(out: Any, value: Any, where: Any = True) -> None:
    out[...] = value if where is True else space.where(where, value, out)


@of_arrays
def new_zeros(beside: Any, shape: tuple, dtype: Any = None) -> Any:
    return wrap(jnp.zeros(shape, dtype or beside.dtype))


@of_arrays
def laid_out(x: Any, format: Any) -> Any:
    return asarray(x).copy()


@of_arrays
def reshape(x: Any, shape: Any) -> Any:
    return asarray(x).reshape(shape)


@of_arrays
def view(x: Any, shape: Any = None, dtype: Any = None) -> Any:
    return reference.view(x, shape, dtype)


@of_arrays
def transpose(x: Any, axes: Any = None) -> Any:
    return x.transpose(*(() if axes is None else (tuple(axes),)))


OWN["permute_dims"] = transpose


@of_arrays
def swapaxes(x: Any, a: int, b: int) -> Any:
    return x.swapaxes(a, b) if x.ndim or not {a, b} <= {0, -1} else x[...]


@of_arrays
def matrix_transpose(x: Any) -> Any:
    return x.swapaxes(-1, -2)


@of_arrays
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    if not x.ndim:
        return x[...]
    source, destination = (numpy.lib.array_utils.normalize_axis_tuple(axes, x.ndim) for axes in (source, destination))
    order = [n for n in range(x.ndim) if n not in source]
    for to, at in sorted(zip(destination, source, strict=True)):
        order.insert(to, at)
    return x.transpose(tuple(order))


@of_arrays
def expand_dims(x: Any, axis: Any) -> Any:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    n = x.ndim + len(axes)
    inserted = numpy.lib.array_utils.normalize_axis_tuple(axes, n)
    return x[tuple(None if i in inserted else slice(None) for i in range(n))]


@of_arrays
def squeeze(x: Any, axis: Any = None) -> Any:
    axes = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else numpy.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    return x[tuple(0 if i in axes else slice(None) for i in range(x.ndim))]


@of_arrays
def broadcast_to(x: Any, shape: Any) -> Any:
    return asarray(x).broadcast_to(tuple(shape))


OWN["spread_to"] = broadcast_to


@of_arrays
def real(x: Any) -> Any:
    return x.real


@of_arrays
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    kept = [n for n in range(x.ndim) if n not in (dim1 % x.ndim, dim2 % x.ndim)]
    flat, last = x.transpose((*kept, dim1 % x.ndim, dim2 % x.ndim)), x.layout.diagonal(offset, dim1, dim2)
    n, k = last.shape[-1], max(offset, 0)
    rows = numpy.arange(n) + max(-offset, 0)
    columns = numpy.arange(n) + k
    return flat._view(lambda v: v[..., rows, columns], lambda v, part: v.at[..., rows, columns].set(part), last)


@of_arrays
def windows(x: Any, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        return x.reshape(1)[:size]
    axis = dim % x.ndim
    count, lead = (x.shape[axis] - size) // step + 1, (slice(None),) * axis
    at = (*lead, numpy.arange(count)[:, None] * step + numpy.arange(size))
    shape, strides = list(x.shape), list(x.strides)
    shape[axis], strides[axis] = count, strides[axis] * step
    layout = as_strided(x.layout, (*shape, size), (*strides, x.strides[axis]))
    return x._view(lambda v: jnp.moveaxis(v[at], axis + 1, -1), lambda v, part: v.at[at].set(jnp.moveaxis(part, -1, axis + 1)), layout)


@of_arrays
def strided_view(x: Any, size: tuple, stride: tuple, offset: int) -> Any:
    owner = x.base or x
    places = numpy.full((1,) * len(size), offset)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        places = places + (numpy.arange(n) * s).reshape((-1,) + (1,) * (len(size) - d - 1))
    if places.size and not 0 <= places.min() <= places.max() < owner.size:
        told = f"sizes {list(size)}, strides {list(stride)}, storage offset {offset}"
        raise ValueError(f"{told} are out of bounds for storage of size {owner.size}")
    layout = as_strided(owner.layout.reshape(-1)[offset:], size, [s * x.itemsize for s in stride])
    whole = owner.shape
    return owner._view(lambda v: v.reshape(-1)[places], lambda v, part: v.reshape(-1).at[places].set(part).reshape(whole), layout)


@of_arrays
def view_as_real(x: Any) -> Any:
    half = x.layout.real
    layout = as_strided(half, (*x.shape, 2), (*x.strides, half.itemsize))
    return x._view(lambda v: jnp.stack([v.real, v.imag], -1), lambda v, part: lax.complex(part[..., 0], part[..., 1]), layout)


@of_arrays
def view_as_complex(x: Any) -> Any:
    reference.view_as_complex(as_strided(numpy.empty(2, x.dtype), x.shape, x.strides))  # raises if the strides do not allow it
    layout = x.layout.view(numpy.result_type(x.dtype, numpy.complex64))[..., 0]
    return x._view(lambda v: lax.complex(v[..., 0], v[..., 1]), lambda v, part: jnp.stack([part.real, part.imag], -1), layout)


# -- padding, order ----------------------------------------------------------------------------------------------------------


@rule
def constant_pad(x: Any, pad: tuple, value: Any = 0) -> Any:
    pairs = list(zip(pad[0::2], pad[1::2], strict=True))[::-1]
    return lax.pad(x, jnp.asarray(value).astype(x.dtype), [(0, 0, 0)] * (x.ndim - len(pairs)) + [(a, b, 0) for a, b in pairs])


@rule
def flip(x: Any, axis: Any = None) -> Any:
    return jnp.flip(x, axis if x.ndim else ())
