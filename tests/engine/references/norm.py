"""Normalisation."""

from __future__ import annotations

import numpy as np


def _standard(x, axes, eps):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)


def _channels(w, ndim):
    return w.reshape(-1, *(1,) * (ndim - 2))


def _affine(x, weight, bias):
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _trailing(shape):
    return tuple(range(-len(np.atleast_1d(shape)), 0))


def _layer_norm(input, weight=None, bias=None, *, normalized_shape, eps=1e-5):
    return _affine(_standard(input, _trailing(normalized_shape), eps), weight, bias)


def _group_norm(input, weight=None, bias=None, *, num_groups, eps=1e-5):
    grouped = input.reshape(len(input), num_groups, -1)
    x = _standard(grouped, 2, eps).reshape(input.shape)
    return _affine(x, *[None if w is None else _channels(w, input.ndim) for w in (weight, bias)])


def _batch_norm(input, weight=None, bias=None, eps=1e-5):
    axes = (0, *range(2, input.ndim))
    x = _affine(_standard(input, axes, eps), *[None if w is None else _channels(w, input.ndim) for w in (weight, bias)])
    return x, input.mean(axes), input.var(axes)


def _rms_norm(input, weight=None, *, normalized_shape, eps=None):
    eps = np.finfo(input.dtype).eps if eps is None else eps
    x = input / np.sqrt((input**2).mean(_trailing(normalized_shape), keepdims=True) + eps)
    return _affine(x, weight, None)


NORM = {"layer_norm": _layer_norm, "group_norm": _group_norm, "batch_normalize": _batch_norm, "rms_norm": _rms_norm}
