"""Kernels of layers and losses for traced arrays: pooling, normalization, class losses, attention, recurrence."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax import lax

from ..kernels_conv import _blocks
from ..kernels_lstm import before
from ..kernels_pool import _shares
from ..windows import place_pool
from .namespace import rule

# -- pooling: the position of a maximum is the number of its tap, as on the CPU ------------------------------------------------------


def _padded(x: Any, at: Any, n: int, value: Any) -> Any:
    return lax.pad(x, jnp.asarray(value, x.dtype), [(0, 0, 0)] * (x.ndim - n) + [(*p, 0) for p in at.pads])


@rule
def max_pool(x: Any, n: int, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    at = place_pool(tuple(x.shape[-n:]), kernel, stride, padding, dilation, ceil_mode)
    least = -numpy.inf if jnp.issubdtype(x.dtype, jnp.floating) else numpy.iinfo(x.dtype).min
    wide, inside = _padded(x, at, n, least), numpy.zeros(at.padded, bool)
    inside[at.inside] = True
    best: Any = None
    tap: Any = None
    found: Any = None
    for i, t in enumerate(at.taps):
        part = wide[t]
        if best is None:
            best, tap = part, jnp.zeros(part.shape, numpy.uint8 if math.prod(at.kernel) < 256 else numpy.int32)
        else:
            better = (part > best) | jnp.isnan(part)
            if not at.bare:  # the maximum is an element of the input, not of the padding
                better |= (part == best) & inside[t] & ~found
            best, tap = jnp.where(better, part, best), jnp.where(better, jnp.asarray(i, tap.dtype), tap)
        found = inside[t] if found is None else found | inside[t]
    return best, tap


@rule
def tap_gather(x: Any, taps: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    n = len(kernel)
    at = place_pool(tuple(x.shape[-n:]), kernel, stride, padding, dilation, ceil_mode)
    wide = _padded(x, at, n, 0)
    return sum(jnp.where(taps == i, wide[t], 0) for i, t in enumerate(at.taps))


@rule
def tap_scatter(
    g: Any, taps: Any, size: tuple, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    n = len(kernel)
    at = place_pool(size[-n:], kernel, stride, padding, dilation, ceil_mode)
    wide = jnp.zeros((*size[:-n], *at.padded), g.dtype)
    for i, t in enumerate(at.taps):
        wide = wide.at[t].add(jnp.where(taps == i, g, 0))
    return at.inner(wide)


@rule
def im2col(x: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    at = _blocks(x.shape[-2:], kernel, dilation, padding, stride)
    wide = _padded(x, at, 2, 0)
    taps = jnp.stack([wide[t] for t in at.taps], -3)
    return taps.reshape(*x.shape[:-3], -1, math.prod(at.out))


def _averaged(x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include_pad: bool, divisor: Any) -> Any:
    n = len(kernel)
    at = place_pool(tuple(x.shape[-n:]), kernel, stride, padding, 1, ceil_mode)
    wide, shares = _padded(x, at, n, 0), _shares(at, include_pad, divisor, x.dtype)
    total: Any = sum(wide[t] for t in at.taps)
    return lax.div(total, jnp.broadcast_to(jnp.asarray(shares, x.dtype), total.shape)) if x.dtype.kind in "iu" else total / shares


@rule
def avg_pool(
    x: Any, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include_pad: bool = True, divisor: Any = None
) -> Any:
    return _averaged(x, kernel, stride, padding, ceil_mode, include_pad, divisor)


@rule
def avg_pool_back(
    g: Any, size: tuple, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include_pad: bool = True,
    divisor: Any = None,
) -> Any:  # fmt: skip
    shape = jax.ShapeDtypeStruct(tuple(size), g.dtype)
    return jax.linear_transpose(lambda x: _averaged(x, kernel, stride, padding, ceil_mode, include_pad, divisor), shape)(g)[0]


# -- normalization -------------------------------------------------------------------------------------------------------------


@rule
def normalize(x: Any, axes: tuple, eps: float, weight: Any = None, bias: Any = None) -> Any:
    mean = jnp.mean(x, axes, keepdims=True)
    apart = x - mean
    rstd = lax.rsqrt(jnp.mean(apart * apart, axes, keepdims=True) + eps)
    out = apart * rstd
    out = out if weight is None else out * weight
    return out if bias is None else out + bias, mean, rstd


@rule
def normalize_input(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple, weight: Any = None) -> Any:
    g, unit = g if weight is None else g * weight, (x - mean) * rstd
    return rstd * (g - jnp.mean(g, axes, keepdims=True) - unit * jnp.mean(g * unit, axes, keepdims=True))


@rule
def normalize_weight(g: Any, x: Any, mean: Any, rstd: Any, axes: tuple) -> Any:
    return jnp.sum(g * ((x - mean) * rstd), axes)


# -- classes. A target out of range cannot be refused here: its loss is nan -------------------------------------------------------


def _axis(x: Any) -> int:
    return min(x.ndim - 1, 1)


@rule
def class_weights(target: Any, weight: Any, ignore: int, dtype: Any) -> Any:
    return _weights(target, weight, ignore, dtype)


def _weights(target: Any, weight: Any, ignore: int, dtype: Any) -> Any:
    kept = target != ignore
    return kept.astype(dtype) if weight is None else jnp.where(kept, weight[jnp.where(kept, target, 0)], 0).astype(dtype)


@rule
def class_pick(x: Any, target: Any, weight: Any = None, ignore: int = -100) -> Any:
    axis, classes = _axis(x), jnp.where(target == ignore, 0, target).astype(numpy.int64)
    found = jnp.squeeze(jnp.take_along_axis(x, jnp.expand_dims(classes, axis), axis), axis)
    found = jnp.where((classes < 0) | (classes >= x.shape[axis]), jnp.nan, found)
    if weight is not None:
        found = found * _weights(target, weight, ignore, x.dtype)
    return jnp.where(target == ignore, jnp.asarray(0, x.dtype), found)


@rule
def class_spread(g: Any, target: Any, weight: Any, size: tuple, ignore: int = -100) -> Any:
    g, axis = g * _weights(target, weight, ignore, g.dtype), min(len(size) - 1, 1)
    chosen = jax.nn.one_hot(jnp.where(target == ignore, -1, target), size[axis], axis=axis, dtype=bool)
    return jnp.where(chosen, jnp.expand_dims(g, axis), 0)


@rule
def log_sum_exp(x: Any) -> Any:
    return jax.nn.logsumexp(x, axis=_axis(x), keepdims=True)


@rule
def softmax_minus(x: Any, lse: Any, scale: Any, g: Any, target: Any, ignore: int) -> Any:
    axis = _axis(x)
    scale, g = (jnp.expand_dims(jnp.broadcast_to(v, target.shape), axis) for v in (scale, g))
    chosen = jax.nn.one_hot(jnp.where(target == ignore, -1, target), x.shape[axis], axis=axis, dtype=bool)
    return jnp.exp(x - lse) * scale - jnp.where(chosen, g, 0)


_NEVER = -1e30  # the logarithm of no probability: differences of infinities would be nan


@rule
def ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> tuple:
    steps, n, _ = log_probs.shape
    size, ends = 2 * targets.shape[1] + 1, 2 * target_lengths[:, None]
    labels, places = jnp.full((n, size), blank).at[:, 1::2].set(targets), numpy.arange(size)
    skips = (places > 1) & (labels != blank) & (labels != jnp.roll(labels, 2, 1))

    def moved(a: Any, by: int) -> Any:
        return jnp.pad(a, ((0, 0), (by, 0)), constant_values=_NEVER)[:, :size]

    def losses(log_probs: Any) -> Any:
        given = jnp.take_along_axis(log_probs, jnp.broadcast_to(labels, (steps, n, size)), 2)
        given = jnp.where(places <= ends, given, _NEVER)

        def step(a: Any, at: tuple) -> tuple:
            t, here = at
            both = jnp.logaddexp(jnp.logaddexp(a, moved(a, 1)), jnp.where(skips, moved(a, 2), _NEVER)) + here
            return jnp.where((t < input_lengths)[:, None], both, a), None

        last, _ = lax.scan(step, jnp.where(places < 2, given[0], _NEVER), (numpy.arange(1, steps), given[1:]))
        before = jnp.where(ends > 0, jnp.take_along_axis(last, jnp.maximum(ends - 1, 0), 1), _NEVER)
        found = jnp.logaddexp(jnp.take_along_axis(last, ends, 1), before)[:, 0]
        return -jnp.where(input_lengths > 0, found, jnp.where(target_lengths == 0, 0.0, _NEVER))

    found, pull = jax.vjp(losses, log_probs.astype(numpy.float64))
    (minus_posterior,) = pull(jnp.ones(n))
    impossible, within = found > -_NEVER / 2, (numpy.arange(steps)[:, None] < input_lengths)[:, :, None]
    slope = jnp.where(within, jnp.where(impossible[:, None], jnp.nan, jnp.exp(log_probs) + minus_posterior), 0)
    return jnp.where(impossible, jnp.inf, found).astype(log_probs.dtype), slope.astype(log_probs.dtype)


# -- recurrence: a scan over time ------------------------------------------------------------------------------------------------


@rule
def lstm(given: Any, h: Any, c: Any, weight: Any, reverse: bool) -> Any:
    n = h.shape[-1]

    def step(carry: Any, z: Any) -> Any:
        h, c = carry
        z = z + h @ weight.T
        i, f, o = (jax.nn.sigmoid(z[:, k * n : (k + 1) * n]) for k in (0, 1, 3))
        new = jnp.tanh(z[:, 2 * n : 3 * n])
        c = f * c + i * new
        h = o * jnp.tanh(c)
        return (h, c), (h, c, jnp.concatenate([i, f, new, o], 1))

    (_, last), (outs, cells, gates) = lax.scan(step, (h, c), given, reverse=reverse)
    return outs, last, cells, gates


@rule
def lstm_back(g: Any, dc: Any, h0: Any, c0: Any, weight: Any, out: Any, cells: Any, gates: Any, reverse: bool) -> Any:
    n = h0.shape[-1]

    def step(carry: Any, at: Any) -> Any:
        (dh, dc), (g, cell, was, z) = carry, at
        i, f, new, o = (z[:, k * n : (k + 1) * n] for k in range(4))
        dh, squashed = dh + g, jnp.tanh(cell)
        dc = dc + dh * o * (1 - squashed * squashed)
        dz = jnp.concatenate([dc * new * i * (1 - i), dc * was * f * (1 - f), dc * i * (1 - new * new), dh * squashed * o * (1 - o)], 1)
        return (dz @ weight, dc * f), dz

    (dh, dc), dz = lax.scan(step, (jnp.zeros_like(h0), dc), (g, cells, before(jnp, cells, c0, reverse), gates), reverse=not reverse)
    return [dz, dh, dc, dz.reshape(-1, 4 * n).T @ before(jnp, out, h0, reverse).reshape(-1, n)]


@rule
def rnn(given: Any, h: Any, weight: Any, relu: bool, reverse: bool) -> Any:
    def step(h: Any, z: Any) -> Any:
        z = z + h @ weight.T
        h = jnp.maximum(z, 0) if relu else jnp.tanh(z)
        return h, h

    return lax.scan(step, h, given, reverse=reverse)[1]


@rule
def rnn_back(g: Any, h0: Any, weight: Any, out: Any, relu: bool, reverse: bool) -> Any:
    n, old = h0.shape[-1], before(jnp, out, h0, reverse)

    def step(dh: Any, at: Any) -> Any:
        g, state = at
        dz = jnp.where(state > 0, dh + g, 0) if relu else (dh + g) * (1 - state * state)
        return dz @ weight, dz

    dh, dz = lax.scan(step, jnp.zeros_like(h0), (g, out), reverse=not reverse)
    return [dz, dh, dz.reshape(-1, n).T @ old.reshape(-1, n)]


@rule
def gru(given: Any, h: Any, weight: Any, bias: Any, reverse: bool) -> Any:
    n = h.shape[-1]

    def step(h: Any, gate: Any) -> Any:
        states = h @ weight.T if bias is None else h @ weight.T + bias
        r, z = (jax.nn.sigmoid(gate[:, k * n : (k + 1) * n] + states[:, k * n : (k + 1) * n]) for k in range(2))
        new = jnp.tanh(gate[:, 2 * n :] + r * states[:, 2 * n :])
        h = new + z * (h - new)
        return h, (h, jnp.concatenate([r, z, new, states[:, 2 * n :]], 1))

    return lax.scan(step, h, given, reverse=reverse)[1]


@rule
def gru_back(g: Any, h0: Any, weight: Any, bias: Any, out: Any, gates: Any, reverse: bool) -> Any:
    n, old = h0.shape[-1], before(jnp, out, h0, reverse)

    def step(dh: Any, at: Any) -> Any:
        g, was, gate = at
        dh, (r, z, new, s) = dh + g, (gate[:, k * n : (k + 1) * n] for k in range(4))
        to_new = dh * (1 - z) * (1 - new * new)
        to_rz = jnp.concatenate([to_new * s * r * (1 - r), dh * (was - new) * z * (1 - z)], 1)
        to_states = jnp.concatenate([to_rz, to_new * r], 1)
        return dh * z + to_states @ weight, (to_states, jnp.concatenate([to_rz, to_new], 1))

    dh, (to_states, to_given) = lax.scan(step, jnp.zeros_like(h0), (g, old, gates), reverse=not reverse)
    rows = to_states.reshape(-1, 3 * n)
    return [to_given, dh, rows.T @ old.reshape(-1, n), None if bias is None else rows.sum(0)]
