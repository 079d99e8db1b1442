"""Pools and resampling, one window at a time."""

from __future__ import annotations

import itertools

import numpy as np

from .conv import each, transpose_of


def _pool_windows(sizes, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """For each dimension, for each window, the places that it covers; those outside of the input are left out, the count of all is kept."""
    n = len(sizes)
    kernel, padding, dilation = each(kernel, n), each(padding, n), each(dilation, n)
    stride = kernel if stride is None else each(stride, n)
    found = []
    for size, k, t, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        span, windows, start = d * (k - 1) + 1, [], -p
        while start + span <= size + p or (ceil_mode and start < size and start + span - t < size + p):
            places = range(start, start + span, d)
            windows.append(
                (
                    [i for i in places if 0 <= i < size],
                    sum(i < size + p for i in places),
                    [j for j, i in enumerate(places) if 0 <= i < size],
                )
            )
            start += t
        found.append(windows)
    return found, kernel


def _over_windows(input, sizes, kernel, settings, make):
    windows, kernel = _pool_windows(sizes, kernel, *settings)
    out = None
    for at in np.ndindex(*map(len, windows)):
        chosen = [w[i] for w, i in zip(windows, at, strict=True)]
        value = make([c[0] for c in chosen], [c[1] for c in chosen], [c[2] for c in chosen], kernel)
        if out is None:
            out = np.zeros((*value.shape, *map(len, windows)), value.dtype)
        out[(..., *at)] = value
    return out


def _max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, n=None, what="value"):
    sizes = input.shape[-n:]
    lead = input.shape[:-n]

    def largest(places, _, taps, kernel):
        part = input[(..., *np.ix_(*places))].reshape(*lead, -1)
        flat = np.array([np.ravel_multi_index(p, sizes) for p in itertools.product(*places)])
        tap = np.array([np.ravel_multi_index(p, kernel) for p in itertools.product(*taps)])
        best = part.argmax(-1)
        return {"value": part.max(-1), "index": flat[best], "tap": tap[best]}[what]

    return _over_windows(input, sizes, kernel_size, (stride, padding, dilation, ceil_mode), largest)


def _with_indices(input, n, kernel_size, **attrs):
    return _max_pool(input, kernel_size, n=n, **attrs), _max_pool(input, kernel_size, n=n, what="index", **attrs)


def _avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    n = len(kernel_size)

    def mean(places, counts, _, kernel):
        total = input[(..., *np.ix_(*places))].sum(tuple(range(-n, 0)))
        return total / (divisor_override or np.prod(counts if count_include_pad else [len(p) for p in places]))

    return _over_windows(input, input.shape[-n:], kernel_size, (stride, padding, 1, ceil_mode), mean)


def _parts(size, count):
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_max(input, output_size):
    n = len(output_size)
    sizes, lead = input.shape[-n:], input.shape[:-n]
    out, index = np.zeros((*lead, *output_size)), np.zeros((*lead, *output_size), int)
    parts = [_parts(size, count) for size, count in zip(sizes, output_size, strict=True)]
    for at in np.ndindex(*output_size):
        places = [p[i] for p, i in zip(parts, at, strict=True)]
        part = input[(..., *np.ix_(*places))].reshape(*lead, -1)
        flat = np.array([np.ravel_multi_index(p, sizes) for p in itertools.product(*places)])
        out[(..., *at)], index[(..., *at)] = part.max(-1), flat[part.argmax(-1)]
    return out, index


def _cubic(t, a=-0.75):
    t = abs(t)
    return (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def _resampling(size, count, mode, align, scale):
    """The matrix (count, size) that resamples one dimension."""
    out = np.zeros((count, size))
    step = 1 / scale if scale else size / count
    for i in range(count):
        if mode == "mean":
            out[i, list(_parts(size, count)[i])] = 1 / len(_parts(size, count)[i])
            continue
        if mode.startswith("nearest"):
            out[i, min(int((i + 0.5) * step if mode == "nearest-exact" else i * step), size - 1)] = 1
            continue
        if align:
            x = i * (size - 1) / (count - 1) if count > 1 else 0.0
        else:
            x = (i + 0.5) * step - 0.5
        if mode == "linear":
            x = max(x, 0.0)
            low = min(int(x), size - 1)
            out[i, low] += 1 - (x - low)
            out[i, min(low + 1, size - 1)] += x - low
        else:
            low = int(np.floor(x))
            for j in range(low - 1, low + 3):
                out[i, min(max(j, 0), size - 1)] += _cubic(x - j)
    return out


def _resample(input, size, mode, align=False, scales=()):
    n = len(size)
    for d, count, scale in zip(range(-n, 0), size, scales or (None,) * n, strict=True):
        input = np.moveaxis(np.moveaxis(input, d, -1) @ _resampling(input.shape[d], count, mode, align, scale).T, -1, d)
    return input


def _tapped(input, taps, kernel, **attrs):
    """Window by window, the element at a tap: the transpose of `tap_scatter`."""
    n = len(kernel)
    windows, _ = _pool_windows(input.shape[-n:], kernel, **attrs)
    out = np.zeros(taps.shape)
    for place in np.ndindex(*taps.shape):
        inside = np.unravel_index(taps[place], kernel)
        source = [windows[d][place[len(place) - n + d]][0][inside[d]] for d in range(n)]
        out[place] = input[(*place[:-n], *source)]
    return out


def _flat(input, index, size, n):
    return np.take_along_axis(input.reshape(*input.shape[:-n], -1), index.reshape(*index.shape[: input.ndim - n], -1), -1).reshape(
        index.shape
    )


POOL = {
    **{f"max_pool{n}d": lambda input, kernel_size, n=n, **attrs: _max_pool(input, kernel_size, n=n, **attrs) for n in (1, 2, 3)},
    "max_pool_with_indices": _with_indices,
    "avg_pool": _avg_pool,
    "avg_pool_back": lambda input, size, **attrs: transpose_of(lambda x: _avg_pool(x, **attrs), size, input),
    "adaptive_max": _adaptive_max,
    "resample": _resample,
    "resample_back": lambda input, size, mode, **attrs: transpose_of(
        lambda x: _resample(x, input.shape[-len(size) :], mode, **attrs), (*input.shape[: -len(size)], *size), input
    ),
    "tap_gather": _tapped,
    "tap_scatter": lambda input, taps, size, kernel, **attrs: transpose_of(lambda x: _tapped(x, taps, kernel, **attrs), size, input),
    "flat_gather": _flat,
    "flat_scatter": lambda input, index, size: transpose_of(
        lambda x: _flat(x, index, None, len(size)), (*input.shape[: input.ndim - 1], *size), input
    ),
}
