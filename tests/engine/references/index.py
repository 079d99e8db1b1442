"""Reading, writing, scattering and sorting at indices."""

from __future__ import annotations

import numpy as np


def _at(input, index, value, combine):
    out = input.copy()
    value = np.broadcast_to(value, out[index].shape)
    numbers = np.arange(out.size).reshape(out.shape)[index]
    flat = out.reshape(-1)
    for n, v in zip(np.ravel(numbers), np.ravel(value), strict=True):
        flat[n] = combine(flat[n], v)
    return flat.reshape(out.shape)


def scattered(input, index, src, dim, combine):
    """One element at a time, in the order of the index."""
    out = input.copy()
    for place in np.ndindex(*index.shape):
        target = list(place)
        target[dim] = index[place]
        out[tuple(target)] = combine(out[tuple(target)], src[place])
    return out


def _gathered(input, index, dim):
    out = np.zeros(index.shape)
    for place in np.ndindex(*index.shape):
        source = list(place)
        source[dim] = index[place]
        out[place] = input[tuple(source)]
    return out


def _slices(input, index, source, dim, combine):
    out = np.moveaxis(input.copy(), dim, 0)
    for i, piece in zip(index, np.moveaxis(source, dim, 0), strict=True):
        out[i] = combine(out[i], piece)
    return np.moveaxis(out, 0, dim)


def _sorted(input, dim=-1, descending=False, stable=False):
    order = np.argsort(-input if descending else input, axis=dim, kind="stable")
    return np.take_along_axis(input, order, dim), order


def _topk(input, k, dim=-1, largest=True):
    values, order = _sorted(input, dim, largest)
    return np.take(values, range(k), dim), np.take(order, range(k), dim)


def _rows_added(input, index, count, padding_idx=None, scale=False):
    out = np.zeros((count, input.shape[-1]))
    often = np.bincount(index.ravel(), minlength=count)
    for i, row in zip(index.ravel(), input.reshape(-1, input.shape[-1]), strict=True):
        if i != padding_idx:
            out[i] += row / (often[i] if scale else 1)
    return out


def _rows_read(input, index, count, padding_idx=None, scale=False):
    often = np.bincount(index.ravel(), minlength=count)
    rows = [input[i] * (i != padding_idx) / (often[i] if scale else 1) for i in index.ravel()]
    return np.array(rows).reshape(*index.shape, -1)


second = lambda old, new: new  # noqa: E731

INDEX = {
    "getitem": lambda input, index: input[index],
    "put_zeros": lambda input, shape, index: _at(np.zeros(shape), index, input, np.add),
    "copy": lambda input, src: np.zeros_like(input) + src,
    "fill": lambda input, value: np.full(input.shape, value),
    "index_put": lambda input, values, indices, accumulate=False: _at(input, indices, values, np.add if accumulate else second),
    "gather": lambda input, index, dim: _gathered(input, index, dim),
    "scatter": lambda input, index, src, dim: scattered(input, index, src, dim, second),
    "scatter_add": lambda input, index, src, dim: scattered(input, index, src, dim, np.add),
    "scatter_prod": lambda input, index, src, dim: scattered(input, index, src, dim, np.multiply),
    "scatter_extreme": lambda input, index, src, dim, reduce: scattered(input, index, src, dim, {"amax": max, "amin": min}[reduce]),
    "index_add": lambda input, index, source, dim, alpha=1: _slices(input, index, alpha * source, dim, np.add),
    "index_copy": lambda input, index, source, dim: _slices(input, index, source, dim, second),
    "index_select": lambda input, index, dim: np.stack([np.take(input, i, dim) for i in index], dim),
    "masked_fill": lambda input, mask, value: np.where(mask, value, input),
    "sort": _sorted,
    "topk": _topk,
    "embedding": lambda input, weight: weight[input],
    "add_rows": _rows_added,
    "read_rows": _rows_read,
}
