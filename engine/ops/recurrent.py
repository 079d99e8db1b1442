"""Recurrent layers as one op over all time steps, since single steps are too small for separate ops."""

from ..core.op import Op

_INNER = {
    "promotion": "Only the layers call it, with tensors of one dtype.",
    "zero_size": "PyTorch has no function of this name; the layers are tested.",
}


class lstm_steps(Op):
    """All steps of a long short-term memory: the hidden states (T, N, H) and the last cell state, both differentiable.

    `tensors` are the input's contributions to the gates (T, N, 4H), the initial states h and c (N, H), and the weight (4H, H) of the hidden
    state. The gates are in the order i, f, g, o; `reverse` runs time backwards.
    """

    home, variadic, inputs, types, exempt = "", True, ("tensors",), "same", _INNER
    outputs, aux = ("out", "last"), ("cells", "gates")
    formula = "h[t], c[t] = lstm(tensors[t], h[t - 1], c[t - 1])"
    examples = ((((3, 2, 8), (2, 2), (2, 2), (8, 2)), {}), (((2, 3, 4), (3, 1), (3, 1), (4, 1)), {"reverse": True}))

    def forward(xp, tensors, reverse=False): return xp.lstm(*tensors, reverse)
    def d_tensors(xp, g, tensors, out, cells, gates, reverse): return xp.lstm_back(*g, *tensors[1:], out, cells, gates, reverse)


class rnn_steps(Op):
    """All steps of an Elman RNN, with tanh or with ReLU: the hidden states (T, N, H).

    `tensors` are the input's contributions, with both biases (T, N, H), the initial state h (N, H), and the weight (H, H) of the hidden
    state; `reverse` runs time backwards.
    """

    home, variadic, inputs, types, exempt = "", True, ("tensors",), "same", _INNER
    formula = "h[t] = tanh(tensors[t] + W h[t - 1])"
    examples = ((((3, 2, 2), (2, 2), (2, 2)), {}), (((2, 3, 1), (3, 1), (1, 1)), {"reverse": True}), (((3, 2, 2), (2, 2), (2, 2)), {"relu": True}))

    def forward(xp, tensors, relu=False, reverse=False): return xp.rnn(*tensors, relu, reverse)
    def d_tensors(xp, g, tensors, out, relu, reverse): return xp.rnn_back(g, *tensors[1:], out, relu, reverse)


class gru_steps(Op):
    """All steps of a gated recurrent unit: the hidden states (T, N, H).

    `tensors` are the input's contributions to the gates (T, N, 3H), the initial state h (N, H), the weight (3H, H) of the hidden state and,
    if it has one, its bias (3H,). The gates are in the order r, z, n; `reverse` runs time backwards.
    """

    home, variadic, inputs, types, exempt = "", True, ("tensors",), "same", _INNER
    aux = ("gates",)
    formula = "h[t] = gru(tensors[t], h[t - 1])"
    examples = ((((3, 2, 6), (2, 2), (6, 2), (6,)), {}), (((2, 3, 3), (3, 1), (3, 1)), {"reverse": True}))

    def forward(xp, tensors, reverse=False): return xp.gru(*tensors, *[None] * (4 - len(tensors)), reverse)
    def d_tensors(xp, g, tensors, out, gates, reverse): return xp.gru_back(g, *tensors[1:], *[None] * (4 - len(tensors)), out, gates, reverse)[: len(tensors)]
