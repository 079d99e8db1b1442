"""Scaled dot-product attention as one function, its gradients and its dropout, in plain array code.

query is (..., H, L, E), key (..., K, S, E) and value (..., K, S, V); each of K heads serves H / K of the query's. `mask` broadcasts to
(..., H, L, S): True where attention is allowed, or added to the scores. `draws` is the state from which the weights' dropout is drawn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from . import kernels_random
from .reference import module_of


def whole_attention(query: Any, key: Any, value: Any, mask: Any = None, grouped: bool = False) -> bool:
    """Whether `attention` is better for these arrays than products and a softmax, one by one. Not on the CPU."""
    return False


def attention_draws(query: Any, key: Any, value: Any, mask: Any, causal: bool, to_mask: bool, source: Any) -> Any:
    """Take what the dropout of the weights needs from a generator, and return it as an array."""
    return kernels_random.integers(source, 2, 0, 1 << 32, numpy.dtype(numpy.int64))


def attention_kept(query: Any, key: Any, draws: Any, dropout: float) -> Any:
    """Return the factors of the weights, 0 or 1 / (1 - dropout)."""
    if draws is None:
        return None
    kept = numpy.random.Generator(numpy.random.Philox(key=draws)).random((*query.shape[:-1], key.shape[-2])) >= dropout
    return (kept / (1 - dropout)).astype(query.dtype)


def attention(query: Any, key: Any, value: Any, mask: Any, draws: Any, scale: float, causal: bool, dropout: float) -> tuple:
    """Return softmax(query keyᵀ scale + mask) value, and the logarithm of the sum of each row's exponentials, (..., H, L, 1).

    A row that sees nothing gives zeros; its logarithm is inf.
    """
    return plainly(module_of(query), query, key, value, mask, attention_kept(query, key, draws, dropout), scale, causal)


def attention_back(
    g: Any, query: Any, key: Any, value: Any, mask: Any, draws: Any, out: Any, logsumexp: Any, scale: float, causal: bool, dropout: float,
    to_mask: bool = False,
) -> list:  # fmt: skip
    """Return the gradients of query, key and value and, with `to_mask`, of the mask at each weight, else None."""
    kept = attention_kept(query, key, draws, dropout)
    return back_plainly(module_of(query), g, query, key, value, mask, kept, out, logsumexp, scale, causal, to_mask)


def plainly(xp: Any, query: Any, key: Any, value: Any, mask: Any, kept: Any, scale: float, causal: bool) -> tuple:
    scores = _scores(xp, query, _spread(xp, key, query), mask, scale, causal)
    top = xp.max(scores, -1, keepdims=True)
    total = xp.sum(xp.exp(scores - xp.where(xp.equal(top, -math.inf), 0.0, top)), -1, keepdims=True)
    logsumexp = xp.where(xp.equal(top, -math.inf), math.inf, xp.log(xp.where(xp.equal(total, 0), 1.0, total)) + top)
    weights = xp.exp(scores - logsumexp)
    return (weights if kept is None else weights * kept) @ _spread(xp, value, query), logsumexp


def back_plainly(
    xp: Any, g: Any, query: Any, key: Any, value: Any, mask: Any, kept: Any, out: Any, logsumexp: Any, scale: float, causal: bool,
    to_mask: bool,
) -> list:  # fmt: skip
    keys, values = _spread(xp, key, query), _spread(xp, value, query)
    weights = xp.exp(_scores(xp, query, keys, mask, scale, causal) - logsumexp)
    slope = g @ xp.swapaxes(values, -1, -2)
    slope = weights * ((slope if kept is None else slope * kept) - xp.sum(g * out, -1, keepdims=True))
    d_value = xp.swapaxes(weights if kept is None else weights * kept, -1, -2) @ g
    d_key = xp.swapaxes(slope, -1, -2) @ query * scale
    return [slope @ keys * scale, _gathered(xp, d_key, key), _gathered(xp, d_value, value), slope if to_mask else None]


def _scores(xp: Any, query: Any, key: Any, mask: Any, scale: float, causal: bool) -> Any:
    scores = (query * scale) @ xp.swapaxes(key, -1, -2)
    if causal:
        scores = xp.where(xp.greater(xp.tril(xp.ones_like(scores)), 0), scores, -math.inf)
    if mask is None:
        return scores
    return xp.where(mask, scores, -math.inf) if mask.dtype.name == "bool" else scores + mask


def _spread(xp: Any, x: Any, query: Any) -> Any:
    """Repeat each head of key or value for the query's heads that it serves."""
    if x.ndim < 3 or x.shape[-3] == query.shape[-3]:
        return x
    *lead, heads, rows, width = x.shape
    wide = xp.broadcast_to(xp.expand_dims(x, -3), (*lead, heads, query.shape[-3] // heads, rows, width))
    return xp.reshape(wide, (*lead, query.shape[-3], rows, width))


def _gathered(xp: Any, d: Any, x: Any) -> Any:
    """Sum the gradients of the repetitions of each head."""
    return d if d.shape == x.shape else xp.sum(xp.reshape(d, (*x.shape[:-2], -1, *x.shape[-2:])), -3)
