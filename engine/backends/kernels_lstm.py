"""LSTM over all time steps, and its gradient: with preallocated buffers, and plainly for namespaces that cannot write in place.

`given` (T, N, 4H) is the input's contribution to the gates i, f, g, o; h and c are the initial states (N, H), and `weight` (4H, H) is the
recurrent weight. With `reverse`, the steps run backwards in time.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import fused, gemm
from .products import matmul, multiply
from .reference import module_of
from .workers import share

_CHUNK = 1 << 15  # elements of a state, over several steps, processed at a time, so that they stay in the cache


def lstm(given: Any, h: Any, c: Any, weight: Any, reverse: bool) -> tuple:
    """Return the hidden states (T, N, H), the last cell state (N, H), all cell states (T, N, H), and the gates (T, N, 4H)."""
    xp, n = module_of(given), h.shape[-1]
    outs, cells = (xp.empty((len(given), *h.shape), given.dtype) for _ in range(2))
    gates = xp.empty(given.shape, given.dtype)
    if (product := gemm.address_of_product(weight)) and (run := fused.kernel("lstm_steps", given, h, c)) is not None:
        run(product, reverse, given, h, c, numpy.ascontiguousarray(weight.T), gates, cells, outs)
        return outs, cells[0 if reverse else -1].copy(), cells, gates
    buffer, turned = xp.empty(h.shape, given.dtype), xp.empty(weight.shape[::-1], weight.dtype)
    xp.negative(weight.T, out=turned)
    for t in order(len(given), reverse):
        z, new = gates[t], cells[t]
        multiply(h, turned, z)
        z -= given[t]
        # z is -(W h + given): i, f and o are 1 / (1 + exp(z)), and g is -tanh(z)
        i, f, g, o = (z[:, k * n : (k + 1) * n] for k in range(4))
        xp.tanh(g, out=buffer)
        xp.exp(z, out=z)
        z += 1
        xp.reciprocal(z, out=z)
        xp.negative(buffer, out=g)
        xp.multiply(f, c, out=new)
        buffer *= i
        new -= buffer
        c, h = new, outs[t]
        xp.tanh(c, out=h)
        h *= o
    return outs, c.copy(), cells, gates


def lstm_back(g: Any, dc: Any, h0: Any, c0: Any, weight: Any, out: Any, cells: Any, gates: Any, reverse: bool) -> list:
    """Return the gradients of `given`, h, c and `weight`, from those of the hidden states (`g`) and the last cell state (`dc`)."""
    xp, n = module_of(out), h0.shape[-1]
    dz, old = xp.empty(gates.shape, out.dtype), before(xp, cells, c0, reverse)
    dc, dh, buffer = xp.array(dc), xp.zeros(h0.shape, out.dtype), xp.empty(h0.shape, out.dtype)
    product = gemm.address_of_product(weight)
    run, back = [
        fused.kernel(name, gates, old, cells, g, dc, dh, weight) if product else None for name in ("lstm_slopes", "lstm_back_steps")
    ]
    steps, size = order(len(out), not reverse), max(1, _CHUNK // max(1, h0.size))
    for some in (steps[k : k + size] for k in range(0, len(steps), size)):
        first = min(some)
        block = slice(first, first + len(some))
        i, f, new, o = (gates[block, :, k * n : (k + 1) * n] for k in range(4))
        # the factors of the gradients of c and h, for these steps at once
        by = dz[block]
        by_i, by_f, by_new, by_o = (by[:, :, k * n : (k + 1) * n] for k in range(4))
        if run is not None and back is not None:
            to_c = xp.empty(cells[block].shape, out.dtype)
            rows = tuple([a[block].reshape(-1, a.shape[-1]) for a in (gates, old, cells)])
            share(run, rows, last=(by.reshape(-1, 4 * n), to_c.reshape(-1, n)))
            back(product, reverse, g[block], gates[block], to_c, weight, dh, dc, by)
            continue
        xp.subtract(1, gates[block], out=by)
        by *= gates[block]
        by_i *= new
        by_f *= old[block]
        xp.multiply(new, new, out=by_new)
        xp.subtract(1, by_new, out=by_new)
        by_new *= i
        to_c = xp.tanh(cells[block])
        by_o *= to_c
        to_c *= to_c
        xp.subtract(1, to_c, out=to_c)
        to_c *= o
        by_c = by.reshape(len(some), len(h0), 4, n)[:, :, :3]
        for t in some:
            k = t - first
            dh += g[t]
            dc += xp.multiply(dh, to_c[k], out=buffer)
            by_c[k] *= dc[:, None]
            by_o[k] *= dh
            multiply(by[k], weight, dh)
            dc *= f[k]
    return [dz, dh, dc, matmul(dz.reshape(-1, 4 * n).T, before(xp, out, h0, reverse).reshape(-1, n))]


def lstm_plainly(xp: Any, given: Any, h: Any, c: Any, weight: Any, reverse: bool) -> tuple:
    n, steps, turned = h.shape[-1], given.shape[0], xp.matrix_transpose(weight)
    outs, cells, gates = ([None] * steps for _ in range(3))
    for t in order(steps, reverse):
        z = given[t] + h @ turned
        if_, g, o = xp.sigmoid(z[:, : 2 * n]), xp.tanh(z[:, 2 * n : 3 * n]), xp.sigmoid(z[:, 3 * n :])
        c = if_[:, n:] * c + if_[:, :n] * g
        h = o * xp.tanh(c)
        outs[t], cells[t], gates[t] = h, c, xp.concatenate([if_, g, o], axis=1)
    return xp.stack(outs), c, xp.stack(cells), xp.stack(gates)


def lstm_back_plainly(xp: Any, g: Any, dc: Any, h0: Any, c0: Any, weight: Any, out: Any, cells: Any, gates: Any, reverse: bool) -> list:
    n, steps = h0.shape[-1], g.shape[0]
    i, f, new, o = (gates[:, :, k * n : (k + 1) * n] for k in range(4))
    squashed = xp.tanh(cells)
    by_c = xp.concatenate([new * i * (1 - i), before(xp, cells, c0, reverse) * f * (1 - f), i * (1 - new * new)], axis=2)
    by_h, to_c = squashed * o * (1 - o), o * (1 - squashed * squashed)
    found, dh = [None] * steps, None
    for t in order(steps, not reverse):
        dh = g[t] if dh is None else g[t] + dh
        dc = dc + dh * to_c[t]
        found[t] = dz = xp.concatenate([xp.concatenate([dc, dc, dc], axis=1) * by_c[t], dh * by_h[t]], axis=1)
        dh, dc = dz @ weight, dc * f[t]
    dz = xp.stack(found)
    return [dz, dh, dc, xp.matrix_transpose(xp.reshape(dz, (-1, 4 * n))) @ xp.reshape(before(xp, out, h0, reverse), (-1, n))]


def order(steps: int, reverse: bool) -> range:
    """Return the steps in the order in which they run."""
    return range(steps)[::-1] if reverse else range(steps)


def before(xp: Any, states: Any, first: Any, reverse: bool) -> Any:
    """Return the state from which each step started."""
    first = xp.expand_dims(first, 0)
    return xp.concatenate([states[1:], first] if reverse else [first, states[:-1]], axis=0)
