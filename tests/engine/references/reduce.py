"""Along a dimension: sums, extremes, order, scans."""

from __future__ import annotations

import numpy as np
import scipy.special

from .index import scattered


def _dims(dim):
    return tuple(dim) if isinstance(dim, list) else dim


def _var(input, dim=None, correction=1, keepdim=False):
    mean = input.mean(_dims(dim), keepdims=True)
    count = input.size // mean.size
    return (abs(input - mean) ** 2).sum(_dims(dim), keepdims=keepdim) / (count - correction)


def _vector_norm(input, ord=2, dim=None, keepdim=False):
    size = np.abs(input)
    if ord == 0:
        return (size != 0).sum(dim, keepdims=keepdim).astype(float)
    if abs(ord) == np.inf:
        return (size.max if ord > 0 else size.min)(dim, keepdims=keepdim)
    return (size**ord).sum(dim, keepdims=keepdim) ** (1 / ord)


def _along(f):
    """A function of one line, applied to every line along `dim`: what it returns, one by one."""

    def whole(input, dim=-1, keepdim=False, **attrs):
        if input.ndim == 0:
            return tuple(np.asarray(x) for x in f([input.item()], **attrs))
        lines = np.moveaxis(input, dim, -1)
        found = [f(list(line), **attrs) for line in lines.reshape(-1, lines.shape[-1])]
        parts = [np.array(x).reshape(lines.shape[:-1]) for x in zip(*found, strict=True)]
        return tuple(np.expand_dims(x, dim) if keepdim else x for x in parts)

    return whole


def _nth(line, n):
    place = sorted(range(len(line)), key=line.__getitem__)[n]
    return line[place], place


def _mode(line):
    """The most frequent element, the smallest of several, and where it is last."""
    value = min(set(line), key=lambda v: (-line.count(v), v))
    return value, len(line) - 1 - line[::-1].index(value)


def _running(input, dim, better):
    def line(values):
        best, found = 0, []
        for i, v in enumerate(values):
            best = i if better(v, values[best]) else best
            found.append(best)
        return found

    if input.ndim == 0:
        return input, np.zeros((), int)
    places = np.apply_along_axis(line, dim, input)
    return np.take_along_axis(input, places, dim), places


def _add_along(input, indices, size, axis):
    shape = list(input.shape)
    shape[axis] = size
    return scattered(np.zeros(shape), indices, input, axis, np.add)


def _search(input, values, right=False, out_int32=False):
    side = "right" if right else "left"
    if input.ndim == 1:
        return np.searchsorted(input, values, side)
    return np.stack([np.searchsorted(a, v, side) for a, v in zip(input, values, strict=True)])


def plain(name):
    return lambda input, dim=None, keepdim=False: getattr(np, name)(input, axis=_dims(dim), keepdims=keepdim)


ALONG = {
    "softmax": lambda input, dim: scipy.special.softmax(input, dim),
    "log_softmax": lambda input, dim: scipy.special.log_softmax(input, dim),
    **{name: plain(name) for name in ("sum", "mean", "prod", "all", "any", "amax", "amin")},
    "var": _var,
    "std": lambda input, **attrs: np.sqrt(_var(input, **attrs)),
    "logsumexp": lambda input, dim, keepdim=False: scipy.special.logsumexp(input, _dims(dim), keepdims=keepdim),
    "vector_norm": _vector_norm,
    "gap_norm": lambda input, p: _vector_norm(input, p, -1),
    "max": _along(lambda line: (max(line), line.index(max(line)))),
    "min": _along(lambda line: (min(line), line.index(min(line)))),
    "argmax": lambda input, dim=None, keepdim=False: np.argmax(input, dim, keepdims=keepdim),
    "argmin": lambda input, dim=None, keepdim=False: np.argmin(input, dim, keepdims=keepdim),
    "count_nonzero": lambda input, dim=None: np.count_nonzero(input, dim),
    "cumsum": lambda input, dim: np.cumsum(input, dim).reshape(input.shape),
    "cumprod": lambda input, dim: np.cumprod(input, dim).reshape(input.shape),
    "logcumsumexp": lambda input, dim: np.log(np.cumsum(np.exp(input), dim)).reshape(input.shape),
    "cummax": lambda input, dim: _running(input, dim, lambda a, b: a >= b),
    "cummin": lambda input, dim: _running(input, dim, lambda a, b: a <= b),
    "add_along_axis": _add_along,
    "kthvalue": _along(lambda line, k: _nth(line, k - 1)),
    "median": _along(lambda line: _nth(line, (len(line) - 1) // 2)),
    "nanmedian": _along(lambda line: _nth(line, (len(line) - 1) // 2)),
    "max_of_all": np.max,
    "min_of_all": np.min,
    "without_nans": lambda input: np.where(np.isnan(input), 0, input),
    "median_of_all": lambda input, skip_nan=False: np.sort(input, None)[(input.size - 1) // 2],
    "mode": _along(_mode),
    "bincount": lambda input, weights=None, minlength=0: np.bincount(input, weights, minlength),
    "histc": lambda input, bins=100, min=0, max=0: np.histogram(input, bins, (min, max) if min != max else None)[0].astype(input.dtype),
    "searchsorted": _search,
}
