"""RNN and GRU over all time steps, and their gradients: with preallocated buffers, and plainly for namespaces that cannot write in place.

`given` is the input's contribution at each step, h the initial state (N, H), and `weight` the recurrent weight. With `reverse`, the steps
run backwards in time.

RNN: h' = tanh(given + W h), or with `relu` that instead; `given` is (T, N, H), and `weight` (H, H).

GRU: h' = n + z (h - n), where r and z are sigmoids of their gates and n = tanh(n's gate + r s); s is the part of W h + b for n. `given` is
(T, N, 3H) with the gates r, z, n, `weight` (3H, H), and `bias` (3H,) or None.
"""

from __future__ import annotations

from typing import Any

import numpy

from . import fused, gemm
from .kernels_lstm import before, order
from .products import matmul, multiply
from .workers import share

_CHUNK = 1 << 15  # elements of a state, over several steps, processed at a time, so that they stay in the cache


def rnn(given: Any, h: Any, weight: Any, relu: bool, reverse: bool) -> Any:
    """Return the hidden states (T, N, H)."""
    outs = numpy.empty(given.shape, given.dtype)
    if (product := gemm.address_of_product(weight)) and (run := fused.kernel("rnn_steps", given, h)) is not None:
        run(product, relu, reverse, given, h, numpy.ascontiguousarray(weight.T), outs)
        return outs
    turned = weight.T
    for t in order(len(given), reverse):
        multiply(h, turned, outs[t])
        h = outs[t]
        h += given[t]
        if relu:
            numpy.maximum(h, 0, out=h)
        else:
            numpy.tanh(h, out=h)
    return outs


def rnn_back(g: Any, h0: Any, weight: Any, out: Any, relu: bool, reverse: bool) -> list:
    """Return the gradients of `given`, h and `weight`, from that of the hidden states."""
    dz, dh, n = numpy.empty(out.shape, out.dtype), numpy.zeros(h0.shape, out.dtype), h0.shape[-1]
    if (product := gemm.address_of_product(weight)) and (run := fused.kernel("rnn_back_steps", out, g, dh, weight)) is not None:
        run(product, relu, reverse, g, out, weight, dh, dz)
    else:
        for t in order(len(out), not reverse):
            dh += g[t]
            if relu:
                dz[t] = numpy.where(out[t] > 0, dh, 0)
            else:
                numpy.multiply(out[t], out[t], out=dz[t])
                numpy.subtract(1, dz[t], out=dz[t])
                dz[t] *= dh
            multiply(dz[t], weight, dh)
    return [dz, dh, matmul(dz.reshape(-1, n).T, before(numpy, out, h0, reverse).reshape(-1, n))]


def rnn_plainly(xp: Any, given: Any, h: Any, weight: Any, relu: bool, reverse: bool) -> Any:
    steps, turned = given.shape[0], xp.matrix_transpose(weight)
    outs = [None] * steps
    for t in order(steps, reverse):
        z = given[t] + h @ turned
        outs[t] = h = xp.maximum(z, 0) if relu else xp.tanh(z)
    return xp.stack(outs)


def rnn_back_plainly(xp: Any, g: Any, h0: Any, weight: Any, out: Any, relu: bool, reverse: bool) -> list:
    n, steps, dh = h0.shape[-1], g.shape[0], None
    found, slope = [None] * steps, None if relu else 1 - out * out
    for t in order(steps, not reverse):
        dh = g[t] if dh is None else g[t] + dh
        found[t] = dz = xp.where(xp.greater(out[t], 0), dh, 0) if slope is None else dh * slope[t]
        dh = dz @ weight
    rows = xp.reshape(xp.stack(found), (-1, n))
    return [xp.stack(found), dh, xp.matrix_transpose(rows) @ xp.reshape(before(xp, out, h0, reverse), (-1, n))]


def gru(given: Any, h: Any, weight: Any, bias: Any, reverse: bool) -> tuple:
    """Return the hidden states (T, N, H), and r, z, n and s of each step (T, N, 4H)."""
    n, dtype = h.shape[-1], given.dtype
    outs, gates = numpy.empty((len(given), *h.shape), dtype), numpy.empty((len(given), len(h), 4 * n), dtype)
    fixed = numpy.zeros(3 * n, dtype) if bias is None else bias
    states = numpy.empty((len(h), 3 * n), dtype)  # W h + b
    if (product := gemm.address_of_product(weight)) and (run := fused.kernel("gru_steps", given, h, fixed)) is not None:
        run(product, reverse, given, h, numpy.ascontiguousarray(weight.T), fixed, states, gates, outs)
        return outs, gates
    turned = weight.T
    for t in order(len(given), reverse):
        gate, new, out = gates[t], gates[t, :, 2 * n : 3 * n], outs[t]
        multiply(h, turned, states)
        states += fixed
        gate[:, 3 * n :] = states[:, 2 * n :]
        both = numpy.add(states[:, : 2 * n], given[t, :, : 2 * n], out=gate[:, : 2 * n])
        numpy.negative(both, out=both)
        numpy.exp(both, out=both)
        both += 1
        numpy.reciprocal(both, out=both)
        numpy.multiply(gate[:, :n], gate[:, 3 * n :], out=new)
        new += given[t, :, 2 * n :]
        numpy.tanh(new, out=new)
        numpy.subtract(h, new, out=out)
        out *= gate[:, n : 2 * n]
        out += new
        h = out
    return outs, gates


def gru_back(g: Any, h0: Any, weight: Any, bias: Any, out: Any, gates: Any, reverse: bool) -> list:
    """Return the gradients of `given`, h, `weight` and `bias`, from that of the hidden states."""
    n, old = h0.shape[-1], before(numpy, out, h0, reverse)
    to_states, to_new = numpy.empty((*out.shape[:2], 3 * n), out.dtype), numpy.empty(out.shape, out.dtype)
    dh, buffer = numpy.zeros(h0.shape, out.dtype), numpy.empty(h0.shape, out.dtype)
    product = gemm.address_of_product(weight)
    run, back = [fused.kernel(name, gates, old, g, dh, weight) if product else None for name in ("gru_slopes", "gru_back_steps")]
    steps, size = order(len(out), not reverse), max(1, _CHUNK // max(1, h0.size))
    for some in (steps[k : k + size] for k in range(0, len(steps), size)):
        first = min(some)
        block = slice(first, first + len(some))
        # every gradient of a step is that of its result times a factor: these, for several steps at once
        by, by_new = to_states[block], to_new[block]
        if run is not None and back is not None:
            rows = tuple([a[block].reshape(-1, a.shape[-1]) for a in (gates, old)])
            share(run, rows, last=(by.reshape(-1, 3 * n), by_new.reshape(-1, n)))
            back(product, reverse, g[block], gates[block], weight, dh, by, by_new)
            continue
        r, z, new, s = (gates[block, :, k * n : (k + 1) * n] for k in range(4))
        by_r, by_z, by_s = (by[:, :, k * n : (k + 1) * n] for k in range(3))
        numpy.multiply(new, new, out=by_new)
        numpy.subtract(1, by_new, out=by_new)
        numpy.subtract(1, z, out=by_z)
        by_new *= by_z
        by_z *= z
        by_z *= old[block] - new
        numpy.multiply(by_new, r, out=by_s)
        numpy.subtract(1, r, out=by_r)
        by_r *= by_s
        by_r *= s
        by_part = by.reshape(len(some), len(h0), 3, n)
        for t in some:
            k = t - first
            dh += g[t]
            by_part[k] *= dh[:, None]
            by_new[k] *= dh
            multiply(by[k], weight, buffer)
            dh *= z[k]
            dh += buffer
    rows = to_states.reshape(-1, 3 * n)
    to_bias = None if bias is None else numpy.add.reduce(rows, 0)
    to_given = numpy.concatenate([to_states[:, :, : 2 * n], to_new], 2)
    return [to_given, dh, matmul(rows.T, old.reshape(-1, n)), to_bias]


def gru_plainly(xp: Any, given: Any, h: Any, weight: Any, bias: Any, reverse: bool) -> tuple:
    n, steps, turned = h.shape[-1], given.shape[0], xp.matrix_transpose(weight)
    outs, gates = ([None] * steps for _ in range(2))
    for t in order(steps, reverse):
        states = h @ turned if bias is None else h @ turned + bias
        rz, s = xp.sigmoid(given[t][:, : 2 * n] + states[:, : 2 * n]), states[:, 2 * n :]
        new = xp.tanh(given[t][:, 2 * n :] + rz[:, :n] * s)
        h = new + rz[:, n:] * (h - new)
        outs[t], gates[t] = h, xp.concatenate([rz, new, s], axis=1)
    return xp.stack(outs), xp.stack(gates)


def gru_back_plainly(xp: Any, g: Any, h0: Any, weight: Any, bias: Any, out: Any, gates: Any, reverse: bool) -> list:
    n, steps, old = h0.shape[-1], g.shape[0], before(xp, out, h0, reverse)
    r, z, new, s = (gates[:, :, k * n : (k + 1) * n] for k in range(4))
    by_new = (1 - z) * (1 - new * new)
    by = xp.concatenate([by_new * s * r * (1 - r), (old - new) * z * (1 - z), by_new * r, by_new], axis=2)
    found, dh = [None] * steps, None
    for t in order(steps, not reverse):
        dh = g[t] if dh is None else g[t] + dh
        found[t] = step = xp.concatenate([dh, dh, dh, dh], axis=1) * by[t]
        dh = dh * z[t] + step[:, : 3 * n] @ weight
    every = xp.stack(found)
    rows = xp.reshape(every[:, :, : 3 * n], (-1, 3 * n))
    to_given = xp.concatenate([every[:, :, : 2 * n], every[:, :, 3 * n :]], axis=2)
    to_bias = None if bias is None else xp.sum(rows, axis=0)
    return [to_given, dh, xp.matrix_transpose(rows) @ xp.reshape(old, (-1, n)), to_bias]
