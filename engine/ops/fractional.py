"""Fractional max pooling: windows at random steps. Source: Graham, Fractional Max-Pooling, 2014."""

from __future__ import annotations

from typing import Any

import numpy

from ..core.devices import namespace
from ..core.op import composite, functions
from ..core.ranges import arange
from ..core.tensor import Tensor


@composite(home="nn.functional")
def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Maxima over windows at random steps, `(N, C, H, W)` to `(N, C, *output_size)`; `return_indices` adds their flat indices."""
    return _pooled(input, 2, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@composite(home="nn.functional")
def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """Maxima over windows at random steps, `(N, C, D, H, W)` to `(N, C, *output_size)`; `return_indices` adds their flat indices."""
    return _pooled(input, 3, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def _pooled(input: Tensor, dims: int, kernel: Any, size: Any, ratio: Any, return_indices: bool, samples: Tensor | None) -> Any:
    name = f"fractional_max_pool{dims}d"
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}: Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(input.shape)}")
    if (size is None) == (ratio is None):
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    x = input if input.ndim == dims + 2 else input.unsqueeze(0)
    n, c, *sizes = x.shape
    each = lambda v: (v,) * dims if isinstance(v, (int, float)) else tuple(v)
    kernel = each(kernel)
    out = each(size) if size is not None else tuple(int(s * r) for s, r in zip(sizes, each(ratio), strict=True))
    for s, k, o in zip(sizes, kernel, out, strict=True):
        if o + k - 1 > s - (dims == 3):  # one less for volumes, as in PyTorch
            raise RuntimeError(f"{name}: pool size {k} and output size {o} are too large for the input size {s}")
    draws = (functions["rand"]((n, c, dims), dtype=x.dtype) if samples is None else samples[:n])._steering()
    order = range(dims) if dims == 3 else (1, 0)  # PyTorch draws depth, height, width in three dimensions, but width first in two
    flat = numpy.zeros((n, c) + (1,) * 2 * dims, numpy.int64)
    for d, at in enumerate(order):
        starts = _starts(draws[..., at], sizes[d], out[d], kernel[d])
        places = starts[..., None] + numpy.arange(kernel[d])
        shape = [n, c] + [1] * 2 * dims
        shape[2 + d], shape[2 + dims + d] = out[d], kernel[d]
        flat = flat * sizes[d] + places.reshape(shape)
    flat = flat.reshape(n, c, -1, int(numpy.prod(kernel)))
    lead = numpy.arange(n)[:, None, None, None], numpy.arange(c)[None, :, None, None]
    beside = lambda a: Tensor._wrap(namespace(x.array).asarray(a))
    found = x.reshape(n, c, -1)[tuple(beside(a) for a in (*lead, flat))]
    nans = (found.isnan() * arange(1, found.shape[-1] + 1, device=x.device)).amax(-1)  # position of the last nan, counted from 1
    which = functions["where"](nans > 0, nans - 1, found.argmax(-1))
    best = found.gather(-1, which.unsqueeze(-1))
    shape = (*input.shape[: input.ndim - dims], *out)
    if not return_indices:
        return best.reshape(shape)
    where = beside(numpy.take_along_axis(flat, which._steering()[..., None], -1)[..., 0])
    return best.reshape(shape), where.reshape(shape)


def _starts(draw: numpy.ndarray, size: int, out: int, kernel: int) -> numpy.ndarray:
    """Starts of the windows: steps of (size - kernel) / (out - 1), shifted by a random part of a step; the last ends at the border."""
    step = draw.dtype.type((size - kernel) / (out - 1) if out > 1 else 0)
    starts = ((numpy.arange(out, dtype=draw.dtype) + draw[..., None]) * step).astype(int) - (draw * step).astype(int)[..., None]
    starts[..., -1] = size - kernel
    return starts
