"""Recurrent layers as one op over all time steps: a step is too small to be a handful of ops."""

from ..op import Op

_INNER = {
    "promotion": "Only the layers call it, with tensors of one dtype.",
    "zero_size": "PyTorch has no function of this name; the layers are tested.",
}


class lstm_steps(Op):
    """All steps of a long short-term memory: the hidden states (T, N, H) and the last cell state, both differentiable.

    `tensors` are what the input contributes to the gates (T, N, 4H), the first states h and c (N, H), and the weight (4H, H) of the hidden
    state. The gates are i, f, g, o in this order; with `reverse` time runs backwards.
    """

    home, variadic, inputs, types, exempt = "", True, ("tensors",), "same", _INNER
    outputs, aux = ("out", "last"), ("cells", "gates")
    formula = "h[t], c[t] = lstm(tensors[t], h[t - 1], c[t - 1])"
    examples = ((((3, 2, 8), (2, 2), (2, 2), (8, 2)), {}), (((2, 3, 4), (3, 1), (3, 1), (4, 1)), {"reverse": True}))

    def forward(xp, tensors, reverse=False):
        given, h, c, weight = tensors
        n, steps, turned = h.shape[-1], given.shape[0], xp.ascontiguousarray(xp.matrix_transpose(weight))
        outs, cells, gates = ([None] * steps for _ in range(3))
        for t in order(steps, reverse):
            z = given[t] + h @ turned
            if_, g, o = xp.sigmoid(z[:, : 2 * n]), xp.tanh(z[:, 2 * n : 3 * n]), xp.sigmoid(z[:, 3 * n :])
            c = if_[:, n:] * c + if_[:, :n] * g
            h = o * xp.tanh(c)
            outs[t], cells[t], gates[t] = h, c, xp.concatenate([if_, g, o], axis=1)
        return xp.stack(outs), c, xp.stack(cells), xp.stack(gates)

    def d_tensors(xp, g, tensors, out, cells, gates, reverse):
        (g, dc), (_, h0, c0, weight) = g, tensors
        n, steps = h0.shape[-1], g.shape[0]
        i, f, new, o = (gates[:, :, k * n : (k + 1) * n] for k in range(4))
        squashed = xp.tanh(cells)
        # what the gradients of c and of h are multiplied by, for all steps at once
        by_c = xp.concatenate([new * i * (1 - i), before(xp, cells, c0, reverse) * f * (1 - f), i * (1 - new * new)], axis=2)
        by_h, to_c = squashed * o * (1 - o), o * (1 - squashed * squashed)
        found, dh = [None] * steps, None
        for t in order(steps, not reverse):
            dh = g[t] if dh is None else g[t] + dh
            dc = dc + dh * to_c[t]
            found[t] = dz = xp.concatenate([xp.concatenate([dc, dc, dc], axis=1) * by_c[t], dh * by_h[t]], axis=1)
            dh, dc = dz @ weight, dc * f[t]
        dz = xp.stack(found)
        rows = xp.reshape(dz, (-1, 4 * n))
        return [dz, dh, dc, xp.matrix_transpose(rows) @ xp.reshape(before(xp, out, h0, reverse), (-1, n))]


def order(steps, reverse):
    """The steps in the order in which they run."""
    return range(steps)[::-1] if reverse else range(steps)


def before(xp, states, first, reverse):
    """The state that each step started from."""
    first = xp.expand_dims(first, 0)
    return xp.concatenate([states[1:], first] if reverse else [first, states[:-1]], axis=0)
