"""Convolutions, one product at a time."""

from __future__ import annotations

import itertools

import numpy as np


def each(value, n):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


def _convolve(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The definition: each result is a sum of products over the channels of its group and the places of the kernel."""
    n = weight.ndim - 2
    x = input if input.ndim == n + 2 else input[None]
    stride, dilation, kernel = each(stride, n), each(dilation, n), weight.shape[2:]
    if padding == "same":
        pads = [(d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for d, k in zip(dilation, kernel, strict=True)]
    else:
        pads = [(p, p) for p in each(padding, n)]
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    sizes = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in zip(x.shape[2:], dilation, kernel, stride, strict=True)]
    out = np.zeros((len(x), len(weight), *sizes))
    per_in, per_out = weight.shape[1], len(weight) // groups
    for b, o, *at in np.ndindex(*out.shape):
        first = o // per_out * per_in
        places = itertools.product(*[[a * t + j * d for j in range(k)] for a, t, d, k in zip(at, stride, dilation, kernel, strict=True)])
        for place, w in zip(places, weight[o].reshape(per_in, -1).T, strict=True):
            out[(b, o, *at)] += x[(b, slice(first, first + per_in), *place)] @ w
    out = out if bias is None else out + bias.reshape(-1, *(1,) * n)
    return out if input.ndim == n + 2 else out[0]


def transpose_of(f, shape, g):
    """The transpose of a linear function, column by column."""
    out = np.zeros(shape)
    for place in np.ndindex(*shape):
        unit = np.zeros(shape)
        unit[place] = 1
        image = f(unit)
        front = tuple(slice(n) for n in g.shape)
        out[place] = (image[front] * g).sum()
    return out


def _deconvolve(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Every element spreads the kernel over the result, `stride` apart; `padding` is cut off at each side."""
    n = weight.ndim - 2
    x = input if input.ndim == n + 2 else input[None]
    stride, padding, extra, dilation = each(stride, n), each(padding, n), each(output_padding, n), each(dilation, n)
    kernel, per_out, per_in = weight.shape[2:], weight.shape[1], len(weight) // groups
    full = [(m - 1) * t + d * (k - 1) + 1 + e for m, t, d, k, e in zip(x.shape[2:], stride, dilation, kernel, extra, strict=True)]
    out = np.zeros((len(x), per_out * groups, *full))
    for b, c, *at in np.ndindex(*x.shape):
        group = c // per_in
        for o, *k in np.ndindex(*weight.shape[1:]):
            place = [a * t + j * d for a, t, j, d in zip(at, stride, k, dilation, strict=True)]
            out[(b, group * per_out + o, *place)] += x[(b, c, *at)] * weight[(c, o, *k)]
    out = out[(..., *[slice(p, size - p) for p, size in zip(padding, full, strict=True)])]
    out = out if bias is None else out + bias.reshape(-1, *(1,) * n)
    return out if input.ndim == n + 2 else out[0]


def _columns(input, kernel_size, dilation=1, padding=0, stride=1):
    kernel, dilation, stride = each(kernel_size, 2), each(dilation, 2), each(stride, 2)
    x = np.pad(input, [(0, 0)] * (input.ndim - 2) + [(p, p) for p in each(padding, 2)])
    rows, columns = [range(0, s - d * (k - 1), t) for s, d, k, t in zip(x.shape[-2:], dilation, kernel, stride, strict=True)]
    windows = [
        x[..., i : i + dilation[0] * kernel[0] : dilation[0], j : j + dilation[1] * kernel[1] : dilation[1]] for i in rows for j in columns
    ]
    return np.stack([w[..., : kernel[0], : kernel[1]].reshape(*x.shape[:-3], -1) for w in windows], -1)


def _from_columns(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    k = each(kernel_size, 2)
    shape = (*input.shape[:-2], input.shape[-2] // (k[0] * k[1]), *each(output_size, 2))
    return transpose_of(lambda x: _columns(x, kernel_size, dilation, padding, stride), shape, input)


CONVOLUTION = {
    "convolution": lambda input, weight, **attrs: _convolve(input, weight, **attrs),
    "convolution_input": lambda grad, weight, size, **attrs: transpose_of(lambda x: _convolve(x, weight, **attrs), size, grad),
    "convolution_weight": lambda grad, input, size, **attrs: transpose_of(lambda w: _convolve(input, w, **attrs), size, grad),
    **{f"conv{n}d": _convolve for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _deconvolve for n in (1, 2, 3)},
    "im2col": _columns,
    "col2im": _from_columns,
}
