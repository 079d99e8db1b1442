"""Pooling over any number of trailing dimensions and its transposes; resampling to other sizes.

The position of a maximum is stored as a tap: its index within its window, in C order.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy

from ..base.errors import Refused
from . import fused
from .elementwise import kept
from .reference import accumulate, module_of
from .windows import Windows, place_pool
from .workers import share


def max_pool(x: Any, n: int, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> tuple:
    """Return the maximum of each window and its tap."""
    at = _at(x, n, kernel, stride, padding, dilation, ceil_mode)
    if _squares(at) and (run := fused.kernel("squares_maximum", x)) is not None:
        out, width = numpy.empty((*x.shape[:-2], *at.out), x.dtype), at.out[-1]
        taps = numpy.empty(out.shape, numpy.uint8)
        share(run, (x.reshape(-1, 2, 2 * width),), last=(out.reshape(-1, width), taps.reshape(-1, width)))
        return out, taps
    xp = module_of(x)
    out, taps, scale = at.pad(x, _lowest(x.dtype)), None, 1
    wide, kind = out, _tap_type(at.kernel)
    # one dimension at a time, the last first: among equal elements the first in C order wins
    for d in range(n - 1, -1, -1):
        rest = (slice(None),) * (n - 1 - d)
        first, *others = [(..., places, *rest) for places in at.along[d]]
        best, at_best = out[first], None if taps is None else taps[first]
        at_best = xp.zeros(best.shape, kind) if at_best is None else xp.array(at_best)
        for j, places in enumerate(others, 1):
            part = out[places]
            better = xp.greater(part, best).view(numpy.uint8)
            best = xp.maximum(best, part)
            # at_best = where(better, taps + j * scale, at_best) without a mask; unsigned overflow wraps and cancels out
            step = kind(j * scale) - at_best if taps is None else taps[places] + kind(j * scale) - at_best
            step *= better
            at_best += step
        out, taps, scale = best, at_best, scale * at.kernel[d]
    always = xp is not numpy  # on a GPU, the host would wait for the conditions
    if x.dtype.kind == "f" and out.size and (always or numpy.isnan(out.max())):  # as in PyTorch, a nan is larger than everything
        for i, tap in enumerate(at.taps):
            xp.copyto(taps, kind(i), where=xp.isnan(wide[tap]))
    if not at.bare and (always or (out == _lowest(x.dtype)).any()):  # there the maximum must be an input element, not the padding
        least, input = out == _lowest(x.dtype), xp.zeros(at.padded, bool)
        input[at.inside] = True
        for i, tap in reversed([*enumerate(at.taps)]):
            xp.copyto(taps, kind(i), where=least & input[tap])
    return out.copy() if math.prod(at.kernel) == 1 else xp.ascontiguousarray(out), taps


def _at(x: Any, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Windows:
    if x.ndim not in (n + 1, n + 2):
        raise Refused(f"max_pool{n}d: Expected {n + 1}D or {n + 2}D (batch mode) tensor, but got input of size: {list(x.shape)}")
    if 0 in x.shape[-n - 1 :]:
        raise Refused(
            f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for input, but got: {list(x.shape)}"
        )
    return place_pool(x.shape[-n:], kernel, stride, padding, dilation, ceil_mode)


def _squares(at: Windows) -> bool:
    """Whether the windows are squares of 2 by 2 that tile the input."""
    return at.kernel == (2, 2) and at.tiles and at.bare


def _lowest(d: Any) -> Any:
    return -numpy.inf if d.kind not in "iu" else numpy.iinfo(d).min


def _tap_type(kernel: tuple) -> Any:
    return numpy.uint8 if math.prod(kernel) < 256 else numpy.int32


def tap_scatter(
    g: Any, taps: Any, size: tuple, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Scatter each element of `g` to its window's tap, in zeros of shape `size`."""
    n = len(kernel)
    at = place_pool(size[-n:], kernel, stride, padding, dilation, ceil_mode)
    xp = module_of(g)
    wide = (xp.empty if at.tiles else xp.zeros)((*size[:-n], *at.padded), g.dtype)
    if _squares(at) and taps.flags.c_contiguous and (run := fused.kernel("scatter_squares", wide, g)):
        width = g.shape[-1]
        share(run, (g.reshape(-1, width), taps.reshape(-1, width)), last=(wide.reshape(-1, 2, 2 * width),))
        return wide
    for i, tap in enumerate(at.taps):
        if at.disjoint:
            kept(g, taps == i, wide[tap])
        else:
            wide[tap] += kept(g, taps == i)
    return at.inner(wide)


def tap_gather(x: Any, taps: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    """Return the element of `x` at each window's tap."""
    n = len(kernel)
    at = place_pool(x.shape[-n:], kernel, stride, padding, dilation, ceil_mode)
    wide, out = at.pad(x), module_of(x).zeros(taps.shape, x.dtype)
    for i, tap in enumerate(at.taps):
        module_of(x).copyto(out, wide[tap], where=taps == i)
    return out


def tap_places(
    taps: Any, size: tuple, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Convert taps to positions in the input, as flat indices over the pooled dimensions."""
    at = place_pool(size, kernel, stride, padding, dilation, ceil_mode)
    xp = module_of(taps)
    flat = xp.zeros(taps.shape, numpy.int64)
    rest = taps.astype(numpy.int64)
    n = len(size)
    within = []
    for k in reversed(at.kernel):
        within.append(rest % k)
        rest //= k
    for i, (t, length, s, d, (lo, _)) in enumerate(zip(reversed(within), size, at.stride, at.dilation, at.pads, strict=True)):
        starts = xp.arange(taps.shape[i - n]).reshape(-1, *(1,) * (n - 1 - i)) * s - lo
        flat = flat * length + (starts + t * d)
    return flat


@functools.lru_cache(256)
def _shares(at: Windows, include_pad: bool, divisor: int | None, dtype: Any) -> Any:
    """Return the divisor of each window's sum: one number, or an array with one per window."""
    if divisor is not None:
        return divisor
    counts = []
    for length, k, s, m, (p, _) in zip(at.size, at.kernel, at.stride, at.out, at.pads, strict=True):
        start = numpy.arange(m) * s - p
        end = numpy.minimum(start + k, length + p)
        counts.append(end - start if include_pad else numpy.minimum(end, length) - numpy.maximum(start, 0))
    if all((c == c[0]).all() for c in counts):
        return int(math.prod(int(c[0]) for c in counts))
    return functools.reduce(numpy.multiply.outer, counts).astype(dtype)


def avg_pool(
    x: Any, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include_pad: bool = True, divisor: Any = None
) -> Any:
    """Return the mean of each window."""
    n = len(kernel)
    at = place_pool(x.shape[-n:], kernel, stride, padding, 1, ceil_mode)
    xp = module_of(x)
    wide = at.pad(x)
    out = None
    for tap in at.taps:
        if out is None:
            out = xp.array(wide[tap], order="C")
        else:
            out += wide[tap]
    return _divided(xp, out, _shares(at, include_pad, divisor, x.dtype))


def _divided(xp: Any, x: Any, by: Any) -> Any:
    by = xp.asarray(by) if isinstance(by, numpy.ndarray) else by
    return xp.sign(x) * xp.sign(by) * (abs(x) // abs(by)) if x.dtype.kind in "iu" else xp.divide(x, by, out=x)  # integers round towards 0


def avg_pool_back(
    g: Any, size: tuple, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include_pad: bool = True,
    divisor: Any = None,
) -> Any:  # fmt: skip
    """The transpose of `avg_pool`: spread each element of `g` over its window."""
    n = len(kernel)
    at = place_pool(size[-n:], kernel, stride, padding, 1, ceil_mode)
    xp = module_of(g)
    g = _divided(xp, g.copy(), _shares(at, include_pad, divisor, g.dtype))
    wide = xp.zeros((*size[:-n], *at.padded), g.dtype)
    for tap in at.taps:
        if at.disjoint:
            wide[tap] = g
        else:
            wide[tap] += g
    return at.inner(wide)


# -- windows of uneven sizes ---------------------------------------------------------------------------------------------


def adaptive_max(x: Any, size: tuple) -> tuple:
    """Return the maximum of each of `size` nearly equal parts, and its flat index over the pooled dimensions."""
    xp, n = module_of(x), len(size)
    ends = x.shape[-n:]
    places = [_parts(length, m) for length, m in zip(ends, size, strict=True)]
    index: Any = tuple(
        xp.asarray(p.reshape(*(1,) * i, p.shape[0], *(1,) * (n - 1), p.shape[1], *(1,) * (n - 1 - i))) for i, p in enumerate(places)
    )
    flat = numpy.zeros((), numpy.int64)
    for i, length in zip(index, ends, strict=True):
        flat = flat * length + i
    inner = math.prod(p.shape[1] for p in places)
    parts = x[(..., *index)].reshape(*x.shape[:-n], *size, inner)
    best, nans = parts.argmax(-1), xp.isnan(parts)
    if xp is not numpy or nans.any():  # the last nan wins, as in PyTorch
        best = xp.where(nans.any(-1), inner - 1 - nans[..., ::-1].argmax(-1), best)
    flat = xp.broadcast_to(flat.reshape(*size, inner), parts.shape)
    return xp.take_along_axis(parts, best[..., None], -1)[..., 0], xp.take_along_axis(flat, best[..., None], -1)[..., 0]


@functools.lru_cache(256)
def _parts(length: int, m: int) -> numpy.ndarray:
    """Return the indices of each of `m` nearly equal parts of a dimension; shorter parts repeat their last index."""
    i = numpy.arange(m)
    start, end = i * length // m, -(-(i + 1) * length // m)
    return numpy.minimum(start[:, None] + numpy.arange((end - start).max())[None], end[:, None] - 1)


def flat_scatter(g: Any, index: Any, size: tuple) -> Any:
    """Add `g` at flat indices over the last dimensions, in zeros whose last dimensions are `size`; Refused for an invalid index."""
    xp, n = module_of(g), len(size)
    lead = g.shape[: g.ndim - n]
    rows, inner = math.prod(lead), math.prod(size)
    out = xp.zeros(rows * inner, g.dtype)
    places = index.reshape(rows, math.prod(index.shape[index.ndim - n :]))
    if places.size and (int(places.min()) < 0 or int(places.max()) >= inner):
        raise Refused(f"Found an invalid max index: {int(places.max())} (output volumes are of size {'x'.join(map(str, size))})")
    accumulate("add", out, (places + inner * xp.arange(rows)[:, None]).reshape(-1), g.reshape(-1))
    return out.reshape(*lead, *size)


def flat_gather(x: Any, index: Any, size: tuple, n: int) -> Any:
    """Return the elements of `x` at flat indices over its last `n` dimensions, with the shape `size`."""
    lead = x.shape[: x.ndim - n]
    flat, places = ((math.prod(lead), math.prod(sizes[len(sizes) - n :])) for sizes in (x.shape, size))
    return module_of(x).take_along_axis(x.reshape(flat), index.reshape(places), 1).reshape(size)


# -- resampling by weighted neighbors -------------------------------------------------------------------------------------


@functools.lru_cache(256)
def _neighbours(length: int, m: int, mode: str, align: bool, scale: float | None) -> tuple:
    """Return, for each of `m` output positions along a dimension, the indices of its input neighbors and their weights."""
    step = (length - 1) / (m - 1) if align and m > 1 else 0.0 if align else 1 / scale if scale else length / m
    if mode == "linear" and length == m:
        step = 1.0  # PyTorch copies a dimension that keeps its size, whatever the scale
    i = numpy.arange(m)
    if mode == "mean":
        index = _parts(length, m)
        times = (index == index[:, -1:]).sum(1, keepdims=True)  # a shorter part repeats its last index; the repetitions share one weight
        count = index.shape[1] - times + 1
        return index, numpy.where(index == index[:, -1:], 1 / (count * times), 1 / count)
    if mode == "nearest":
        return numpy.minimum(numpy.floor((i * numpy.float32(step)).astype(numpy.float32)), length - 1).astype(numpy.int64)[
            :, None
        ], numpy.ones((m, 1))
    if mode == "nearest-exact":
        return numpy.minimum(numpy.floor((i + 0.5) * step), length - 1).astype(numpy.int64)[:, None], numpy.ones((m, 1))
    at = i * step if align else (i + 0.5) * step - 0.5
    if mode == "linear":
        at = numpy.maximum(at, 0)
        low = numpy.minimum(numpy.floor(at).astype(numpy.int64), length - 1)
        t = (at - low)[:, None]
        high = low if length == m else numpy.minimum(low + 1, length - 1)
        return numpy.stack([low, high], 1), numpy.concatenate([1 - t, t], 1)
    low = numpy.floor(at)
    index = low.astype(numpy.int64)[:, None] + numpy.arange(-1, 3)[None]
    return numpy.clip(index, 0, length - 1), numpy.stack(cubic(at - low), 1)


def cubic(t: Any) -> tuple:
    """Weights of Keys' cubic convolution with a = -0.75 for two elements on each side of a position at distance `t` from the second."""
    a = -0.75
    near = lambda d: ((a + 2) * d - (a + 3)) * d * d + 1  # noqa: E731
    far = lambda d: ((a * d - 5 * a) * d + 8 * a) * d - 4 * a  # noqa: E731
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def for_bytes(weights: numpy.ndarray) -> numpy.ndarray:
    """Round weights to PyTorch's for uint8: 16-bit integers over the largest power of two at which the largest weight still fits."""
    scale = next(2.0**bits for bits in range(23) if bits == 22 or int(0.5 + weights.max() * 2.0 ** (bits + 1)) >= 1 << 15)
    return numpy.trunc(weights * scale + numpy.copysign(0.5, weights)) / scale


def resample(x: Any, size: tuple, mode: str, align: bool = False, scales: tuple = ()) -> Any:
    """Resample the last dimensions to `size`, one at a time, as weighted sums of neighbors; uint8 is rounded after each dimension."""
    xp, n, kind = module_of(x), len(size), x.dtype
    for d, m in reversed(list(enumerate(size))) if kind == numpy.uint8 else enumerate(size):  # PyTorch's order, visible in rounding
        axis = x.ndim - n + d
        index, weights = _neighbours(x.shape[axis], m, mode, align, scales[d] if scales else None)
        total: Any = None
        if kind == numpy.uint8 and index.shape[1] > 1:
            if x.shape[axis] == m:  # PyTorch leaves uint8 unchanged along a dimension that keeps its size
                continue
            x, weights = x.astype(numpy.float32), weights.copy()
            for j in range(1, index.shape[1]):  # an index repeated at the edge gets the sum of its weights
                twice = index[:, j] == index[:, j - 1]
                weights[twice, j] += weights[twice, j - 1]
                weights[twice, j - 1] = 0
            weights = for_bytes(weights)
        for j in range(index.shape[1]):
            part = xp.take(x, xp.asarray(index[:, j]), axis)
            if index.shape[1] > 1:
                part *= xp.asarray(weights[:, j].astype(x.dtype)).reshape(-1, *(1,) * (n - 1 - d))
            total = part if total is None else xp.add(total, part, out=total)
        x = total if total.dtype == kind else xp.clip(xp.floor(total + 0.5), 0, 255).astype(kind)
    return x


def resample_back(g: Any, size: tuple, mode: str, align: bool = False, scales: tuple = ()) -> Any:
    """The transpose of `resample`: from the resampled dimensions back to `size`."""
    xp, n = module_of(g), len(size)
    for d, length in enumerate(size):
        axis = g.ndim - n + d
        index, weights = _neighbours(length, g.shape[axis], mode, align, scales[d] if scales else None)
        to, order = index.reshape(-1), numpy.argsort(index, axis=None, kind="stable")
        part = xp.take(g, xp.asarray(order // index.shape[1]), axis)
        if index.shape[1] > 1:
            part *= xp.asarray(weights.reshape(-1)[order].astype(g.dtype)).reshape(-1, *(1,) * (n - 1 - d))
        g, lead = xp.zeros((*g.shape[:axis], length, *g.shape[axis + 1 :]), g.dtype), (slice(None),) * axis
        if xp is numpy:  # ten times as fast as `add.at` along a dimension
            first = numpy.flatnonzero(numpy.diff(to[order], prepend=-1))
            g[(*lead, to[order][first])] = numpy.add.reduceat(part, first, axis)
        else:
            accumulate("add", g, (*lead, xp.asarray(to[order])), part)
    return g
