"""Convolution in any number of dimensions and its two gradients, by unrolled windows and matrix products in cache-sized chunks.

The arguments are PyTorch's: x (N, C, *size), weight (O, C / groups, *kernel); the batch dimension may be missing everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy

from ..base.errors import Refused
from . import kernels_depthwise
from .reference import module_of
from .windows import Rows, Windows, each, place

_CHUNK = 1 << 17  # elements of unrolled windows per chunk, small enough to stay in the cache
_NARROW = 128  # columns; with fewer, most of a matrix product's time goes into the other matrix


def convolution(x: Any, weight: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None) -> Any:
    """Convolution (cross-correlation) of x with weight: shape (N, O, *out); Refused for mismatched shapes."""
    check(x.shape, weight.shape, bias, groups)
    if x.ndim < weight.ndim:
        return convolution(x[None], weight, stride, padding, dilation, groups, bias)[0]
    xp, out = module_of(x), _over(place(x.shape[2:], weight.shape[2:], stride, padding, dilation), x, weight, groups)
    if bias is None:
        return xp.ascontiguousarray(out)
    return xp.add(out, bias.reshape(-1, *(1,) * (out.ndim - 2)), out=out if out.flags.c_contiguous else None)


def _over(windows: Windows, x: Any, weight: Any, groups: int) -> Any:
    """Convolve over these windows; the result may be part of a larger array."""
    xp, n, o, single = module_of(x), len(x), len(weight), _depthwise(weight, groups)
    if x.size == 0 or weight.size == 0 or 0 in windows.out:
        return xp.zeros((n, o, *windows.out), x.dtype)
    if single and (out := kernels_depthwise.convolution(x, weight, windows)) is not None:
        return out
    at = windows.over(1 if single else o // groups)
    out = xp.empty((n, o, *at.out), x.dtype)
    if single:
        wide, each = at.pad(x)[:, :, None], out.reshape(n, groups, -1, *at.out)
        for chunk in _chunks(n, 8 * out[0].size):
            few, term = each[chunk], None
            for tap, factor in _by_channel(weight, groups, at):
                if term is None:
                    term = xp.empty_like(few)
                    xp.multiply(wide[chunk][tap], factor, out=few)
                else:
                    few += xp.multiply(wide[chunk][tap], factor, out=term)
        return at.crop(out)
    matrix, places = weight.reshape(groups, o // groups, -1), math.prod(at.out)
    flat, joined = out.reshape(n, groups, o // groups, places), places < _NARROW
    for chunk, columns in _columns(xp, x, at, groups, joined):
        if joined:
            flat[chunk] = xp.moveaxis(xp.matmul(matrix, columns).reshape(groups, o // groups, -1, places), 2, 0)
        else:
            xp.matmul(matrix, columns, out=flat[chunk])
    return at.crop(out)


def convolution_input(g: Any, weight: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Gradient of `convolution` with respect to x, from g (N, O, *out) to shape `size`; also the transposed convolution."""
    if g.ndim < weight.ndim:
        return convolution_input(g[None], weight, (1, *size), stride, padding, dilation, groups)[0]
    xp = module_of(g)
    n, o = g.shape[0], weight.shape[0]
    windows = place(size[2:], weight.shape[2:], stride, padding, dilation, g.shape[2:])
    single = _depthwise(weight, groups)
    if g.size == 0 or weight.size == 0:
        return xp.zeros(size, g.dtype)
    if single and (out := kernels_depthwise.convolution_input(g, weight, windows, size)) is not None:
        return out
    # zeros between windows or around them, times inf, would be nan; on a GPU, the host would wait for the condition
    finite = xp is numpy and numpy.isfinite(weight).all()
    if finite and not single and not windows.plain and o <= 2 * size[1] and windows.turned is not None:
        turned = weight.reshape(groups, o // groups, weight.shape[1], -1).swapaxes(1, 2)[..., ::-1]
        return xp.ascontiguousarray(_over(windows.turned, g, turned.reshape(size[1], o // groups, *weight.shape[2:]), groups))
    at = windows.over(o // groups) if finite else windows
    g = at.spread(g)
    if single:
        wide, each = xp.zeros((n, groups, *at.padded), g.dtype), g.reshape(n, groups, -1, *at.out)
        for chunk in _chunks(n, 8 * g[0].size):
            for tap, factor in _by_channel(weight, groups, at):
                term = each[chunk] * factor
                wide[chunk][tap] += term[:, :, 0] if term.shape[2] == 1 else term.sum(2)
        return at.inner(wide)
    matrix = weight.reshape(groups, o // groups, -1).swapaxes(1, 2)
    flat = g.reshape(n, groups, o // groups, -1)
    if at.plain:
        return xp.matmul(matrix, flat).reshape(size)
    wide = xp.zeros((n, size[1], *at.padded), g.dtype)
    for chunk in _chunks(n, matrix[..., 0].size * flat.shape[-1]):
        columns = xp.matmul(matrix, flat[chunk]).reshape(-1, size[1], matrix.shape[1] * groups // size[1], *at.out)
        for i, tap in enumerate(at.taps):
            wide[chunk][tap] += columns[:, :, i]
    return at.inner(wide)


def convolution_weight(g: Any, x: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Gradient of `convolution` with respect to weight, from g (N, O, *out) and x to shape `size`."""
    if g.ndim < len(size):
        return convolution_weight(g[None], x[None], size, stride, padding, dilation, groups)
    if g.size == 0 or x.size == 0 or 0 in size:
        return module_of(g).zeros(size, g.dtype)
    windows = place(x.shape[2:], size[2:], stride, padding, dilation, g.shape[2:])
    if module_of(g) is numpy:
        at = windows.over(size[0] // groups)
        out = _weight_over(at, g, x, size, groups)
        if at is windows or numpy.isfinite(out).all():  # else a non-finite element may have met the zeros between windows
            return out
    return _weight_over(windows, g, x, size, groups)


def _weight_over(at: Windows | Rows, g: Any, x: Any, size: tuple, groups: int) -> Any:
    xp = module_of(g)
    n, o = g.shape[0], size[0]
    out, g = xp.zeros(size, g.dtype), at.spread(g)
    if _depthwise(out, groups):
        wide, flat = at.pad(x), g.reshape(n, groups, o // groups, -1)
        taps = out.reshape(groups, o // groups, -1)
        for i, tap in enumerate(at.taps):
            taps[..., i] = xp.matmul(flat, wide[tap].reshape(n, groups, -1, 1)).sum(0)[..., 0]
        return out
    total, flat = out.reshape(groups, o // groups, -1), g.reshape(n, groups, o // groups, -1)
    for chunk, columns in _columns(xp, x, at, groups, joined=True):
        # sum over samples and positions together: one long product per group
        left = flat[chunk].transpose(1, 2, 0, 3).reshape(*total.shape[:2], -1)
        total += xp.matmul(left, columns.swapaxes(1, 2))
    return out


def check(x: tuple, weight: tuple, bias: Any, groups: int) -> None:
    """Check the shapes of a convolution; the error messages are PyTorch's."""
    n, o = len(weight) - 2, weight[0]
    if len(x) not in (n + 1, n + 2):
        raise Refused(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to conv{n}d, but got input of size: {list(x)}")
    if groups <= 0:
        raise Refused("non-positive groups is not supported")
    if o < groups:
        raise Refused(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {list(weight)} instead"
        )
    if o % groups:
        raise Refused(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {list(weight)} instead"
        )
    if x[-n - 1] != weight[1] * groups:
        raise Refused(
            f"Given groups={groups}, weight of size {list(weight)}, expected input{list(x)} to have {weight[1] * groups} channels, "
            f"but got {x[-n - 1]} channels instead"
        )
    if bias is not None and bias.shape != (o,):
        raise Refused(
            f"Given weight of size {list(weight)}, expected bias to be 1-dimensional with {o} elements, "
            f"but got bias of size {list(bias.shape)} instead"
        )


def _chunks(n: int, each: int, places: int = _NARROW) -> list[slice]:
    """Return slices of `n` samples of which each takes `each` elements, with `_NARROW` places or more together."""
    step = max(1, _CHUNK // max(each, 1), -(-_NARROW // places))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def _columns(xp: Any, x: Any, at: Windows | Rows, groups: int, joined: bool = False) -> Iterator[tuple]:
    """Yield the windows as matrices, some samples at a time: (samples, groups, C / groups * kernel, out).

    With `joined`: (groups, C / groups * kernel, samples * out).
    """
    rows = x.shape[1] // groups * math.prod(at.kernel)
    if at.plain and not joined:
        yield slice(None), x.reshape(len(x), groups, rows, -1)
        return
    view = at.view(at.pad(x))
    memory = None
    places = math.prod(at.out)
    for chunk in _chunks(len(x), groups * rows * places, places if joined else _NARROW):
        few = view[chunk]
        n = len(few)
        if joined:
            few = xp.moveaxis(few, 0, 1 + len(at.kernel))
        if memory is None or memory.shape != few.shape:
            memory = xp.empty(few.shape, x.dtype)
        memory[...] = few
        yield chunk, memory.reshape(groups, rows, -1) if joined else memory.reshape(n, groups, rows, -1)


def _depthwise(weight: Any, groups: int) -> bool:
    """Whether each group has one input channel, for which a matrix product would have a single row."""
    return weight.shape[1] == 1 and groups > 1


def _by_channel(weight: Any, groups: int, at: Windows | Rows) -> tuple:
    """Pair each tap with its factor of a depthwise weight, which broadcasts against (N, groups, O / groups, *out)."""
    factors = weight.reshape(groups, -1, math.prod(at.kernel), *(1,) * len(at.out))
    return tuple(zip(at.taps, (factors[:, :, i] for i in range(factors.shape[2])), strict=True))


def im2col(x: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Unfold every window into a column: (N, C, *size) to (N, C * kernel, out)."""
    at = _blocks(x.shape[-2:], kernel, dilation, padding, stride)
    if x.ndim == 3:
        return im2col(x[None], kernel, dilation, padding, stride)[0]
    return at.view(at.pad(x)).reshape(len(x), x.shape[1] * math.prod(at.kernel), math.prod(at.out))


def col2im(columns: Any, size: tuple, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Fold columns back into (N, C, *size), summing where windows overlap: the transpose of `im2col`."""
    at = _blocks(size, kernel, dilation, padding, stride)
    if columns.ndim == 2:
        return col2im(columns[None], size, kernel, dilation, padding, stride)[0]
    taps, places = math.prod(at.kernel), math.prod(at.out)
    if columns.ndim != 3:
        raise Refused(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, "
            f"but got: {list(columns.shape)}"
        )
    if columns.shape[1] % taps:
        raise Refused(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={columns.shape[1]} and kernel_size={at.kernel}."
        )
    if columns.shape[2] != places:
        raise Refused(
            f"Given output_size={tuple(at.size)}, kernel_size={at.kernel}, dilation={at.dilation}, padding={tuple(p for p, _ in at.pads)}, "
            f"stride={at.stride}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{' * '.join(map(str, at.out))} = {places}, but got input.size(2)={columns.shape[2]}."
        )
    each = columns.reshape(len(columns), columns.shape[1] // taps, taps, *at.out)
    wide = module_of(columns).zeros((*each.shape[:2], *at.padded), columns.dtype)
    for i, tap in enumerate(at.taps):
        wide[tap] += each[:, :, i]
    return at.inner(wide)


def _blocks(size: tuple, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Windows:
    kernel, strides, steps, pads = (
        each(v, 2, name) for v, name in ((kernel, "kernel_size"), (stride, "stride"), (dilation, "dilation"), (padding, "padding"))
    )
    for name, values, least in (("kernel size", kernel, 1), ("stride", strides, 1), ("dilation", steps, 1), ("padding", pads, 0)):
        if min(values) < least:
            raise Refused(f"{name} should be {'greater than zero' if least else 'non-negative'}, but got {values}")
    return place(size, kernel, strides, pads, steps)
