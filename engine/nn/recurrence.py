"""Computations of recurrent layers: steps and scans over packed rows, and PyTorch's functions `lstm`, `lstm_cell` and so on."""

from __future__ import annotations

import itertools
from typing import Any

from ..autograd import Function, is_grad_enabled
from ..base import errors, observe
from ..core import casting
from ..core.tensor import Tensor
from ..ops.join import cat, stack
from ..ops.recurrent import gru_steps, lstm_steps, rnn_steps
from . import functional as F


class TimeSteps(Function):
    """Split a packed sequence into one tensor per time step; the backward pass joins the gradients in one concatenation."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, sizes: tuple[int, ...]) -> tuple:
        ends = list(itertools.accumulate(sizes))
        return tuple(Tensor._wrap(input.array[end - n : end]) for n, end in zip(sizes, ends, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        if is_grad_enabled():
            return cat(grads), None
        watcher, observe.current = observe.current, None  # only a recorded pass shows the ops of a rule
        try:
            return cat(grads), None
        finally:
            observe.current = watcher


# -- one step of each kind: `gates` is the input's contribution, `step(gates, state, w_hh, b_hh, w_hr)` the next state -------------------


def _tanh_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """Elman step with tanh: h' = tanh(gates + W h + b)."""
    return (F.tanh(gates + F.linear(state[0], w_hh, b_hh)),)


def _relu_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """Elman step with ReLU: h' = relu(gates + W h + b)."""
    return (F.relu(gates + F.linear(state[0], w_hh, b_hh)),)


def _gru_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """GRU step: h' = n + z (h - n), with reset and update gates r and z, and n = tanh(gates_n + r (W_n h + b_n))."""
    (h,) = state
    r, z, n = gates.chunk(3, -1)
    hr, hz, hn = F.linear(h, w_hh, b_hh).chunk(3, -1)
    n = F.tanh(n + F.sigmoid(r + hr) * hn)
    return (n + F.sigmoid(z + hz) * (h - n),)


def _lstm_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """LSTM step: c' = f c + i g and h' = o tanh(c'), projected by W_hr if given."""
    h, c = state
    i, f, g, o = (gates + F.linear(h, w_hh, b_hh)).chunk(4, -1)
    c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
    h = F.sigmoid(o) * F.tanh(c)
    return (h if w_hr is None else F.linear(h, w_hr)), c


STEPS = {"RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "LSTM": _lstm_step, "GRU": _gru_step}
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def scan(mode: str, data: Tensor, sizes: tuple[int, ...], start: tuple, weights: list, reverse: bool) -> tuple[Tensor, tuple]:
    """Run one layer in one direction over packed rows; return the outputs, packed alike, and each sequence's last state.

    `sizes[t]` is the number of sequences still running at step t; they are sorted by length, so a smaller batch is a prefix.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    apart = mode == "GRU"  # its biases are not simply added, and autocast casts its products alone
    if w_hr is None and sizes[0] == sizes[-1] and not (apart and casting.on):  # all steps as one op
        gates = F.linear(data, w_ih, b_ih if apart or b_ih is None else b_ih + b_hh).reshape(len(sizes), sizes[0], w_ih.shape[0])
        given, end = (gates, *start, w_hh), 0 if reverse else -1
        if mode == "LSTM":
            out, last = lstm_steps(given, reverse)
            return out.flatten(0, 1), (out[end], last)
        if apart:
            out = gru_steps(given if b_hh is None else (*given, b_hh), reverse)
        else:
            out = rnn_steps(given, mode == "RNN_RELU", reverse)
        return out.flatten(0, 1), (out[end],)
    step = STEPS[mode]
    gates = TimeSteps.apply(F.linear(data, w_ih, b_ih), sizes)
    outputs: list = [None] * len(sizes)
    steps = range(len(sizes))
    state = tuple(s[: sizes[-1]] if s.shape[0] != sizes[-1] else s for s in start) if reverse else start
    ended: list[tuple] = []  # states of finished sequences, the shortest first
    for t in reversed(steps) if reverse else steps:
        running, n = state[0].shape[0], sizes[t]
        if n > running:
            state = tuple(cat([s, s0[running:n]]) for s, s0 in zip(state, start, strict=True))
        elif n < running:
            ended.append(tuple(s[n:] for s in state))
            state = tuple(s[:n] for s in state)
        state = step(gates[t], state, w_hh, b_hh, w_hr)
        outputs[t] = state[0]
    last = tuple(cat([s, *[e[i] for e in reversed(ended)]]) for i, s in enumerate(state)) if ended else state
    return cat(outputs), last


def layers(
    mode: str, data: Tensor, sizes: tuple[int, ...], start: tuple, weights: list[list], directions: int, dropout: float = 0.0
) -> tuple[Tensor, tuple]:  # fmt: skip
    """Run all layers over packed rows; return the outputs and the last states `(layers * directions, N, H)`.

    `weights` holds w_ih, w_hh, b_ih, b_hh and w_hr (or None) per layer and direction; `dropout` is the probability between layers.
    """
    ends = []
    for at in range(0, len(weights), directions):
        found = []
        for direction in range(directions):
            i = at + direction
            out, last = scan(mode, data, sizes, tuple(s[i] for s in start), weights[i], bool(direction))
            found.append(out)
            ends.append(last)
        data = found[0] if directions == 1 else cat(found, -1)
        if dropout and at + directions < len(weights):
            data = F.dropout(data, dropout, True)
    return data, tuple(stack(list(part)) for part in zip(*ends, strict=True))


def cell(mode: str, input: Tensor, state: tuple, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None) -> tuple:
    """Run one step: return the next state `(h,)` or `(h, c)`, each `(N, H)`, from an input `(N, in)` and the previous state."""
    if mode == "LSTM" and len(state) != 2:
        raise RuntimeError(f"lstm_cell expects two hidden states, but got {len(state)}")
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}")
    for i, h in enumerate(state):
        if h.shape[0] != input.shape[0]:
            raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {h.shape[0]}")
        if h.shape[1] != w_hh.shape[1]:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {h.shape[1]}, expected {w_hh.shape[1]}")
    return STEPS[mode](F.linear(input, w_ih, b_ih), state, w_hh, b_hh, None)


# -- PyTorch's functions ------------------------------------------------------------------------------------------------------------

_PADDED = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
_PACKED = ("data", "batch_sizes", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")


def _sorted(name: str, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Return the arguments by name; the position of the weights distinguishes padded from packed sequences."""
    packed = "batch_sizes" in kwargs or len(args) > 3 and not isinstance(args[3], (bool, int))
    names = _PACKED if packed else _PADDED
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or given.keys() & kwargs.keys() or given.keys() | kwargs.keys() != set(names):
        told = ", ".join([*(type(a).__name__ for a in args), *(f"{k}={type(v).__name__}" for k, v in kwargs.items())])
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({told}), but expected ({', '.join(_PADDED)}), "
            f"or for packed sequences ({', '.join(_PACKED)})"
        )
    return given | kwargs


def _run(name: str, mode: str, args: tuple, kwargs: dict) -> tuple:
    """Return the output and the last states; the output is `(T, N, H)`, `(N, T, H)` with `batch_first`, or packed rows."""
    given = _sorted(name, args, kwargs)
    packed = "data" in given
    x, hx, params = given["data" if packed else "input"], given["hx"], list(given["params"])
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}")
    pair = mode == "LSTM"
    if isinstance(hx, Tensor) is pair:
        wanted = "tuple of Tensors" if pair else "Tensor"
        raise TypeError(f"{name}(): argument 'hx' (position {3 if packed else 2}) must be {wanted}, not {type(hx).__name__}")
    start: list[Tensor] = list(hx) if pair else [hx]
    if pair and len(start) != 2:
        raise RuntimeError(f"lstm expects two hidden states, but got {len(start)}")
    if x.ndim != (2 if packed else 3):
        raise RuntimeError(f"{name}: expected {'packed rows of 2' if packed else 'an input of 3'} dimensions, but got {x.ndim}")
    directions = 2 if given["bidirectional"] else 1
    many = given["num_layers"] * directions
    projected = pair and start[0].shape[-1] != start[1].shape[-1]
    each = 2 + 2 * bool(given["has_biases"]) + projected
    if len(params) != many * each:
        raise RuntimeError(f"{name}: {many} layers and directions have {each} weights each, {many * each} in all, but got {len(params)}")
    if packed:
        sizes = tuple(given["batch_sizes"].tolist())
        x = x[: sum(sizes)]
    else:
        x = x.transpose(0, 1) if given["batch_first"] else x
        steps, batch = x.shape[0], x.shape[1]
        sizes, x = (batch,) * steps, x.reshape(steps * batch, x.shape[-1])
    if not sizes:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    if any(a < b for a, b in itertools.pairwise(sizes)):
        raise RuntimeError(f"{name}: batch_sizes must not grow from one step to the next, but got {list(sizes)}")
    for i, h in enumerate(start):
        if h.ndim != 3 or tuple(h.shape[:2]) != (many, sizes[0]):
            raise RuntimeError(
                f"{name}: expected hidden state {i} of {many} layers and directions and {sizes[0]} sequences, but got {errors.describe(h)}"
            )
    weights = []
    for at in range(0, len(params), each):
        one = params[at : at + each]
        biases = one[2:4] if given["has_biases"] else [None, None]
        weights.append([*one[:2], *biases, one[-1] if projected else None])
    out, ends = layers(mode, x, sizes, tuple(start), weights, directions, given["dropout"] if given["train"] else 0.0)
    if not packed:
        out = out.reshape(len(sizes), sizes[0], out.shape[-1])
        out = out.transpose(0, 1) if given["batch_first"] else out
    return out, *ends


def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Run an LSTM like `nn.LSTM`, from a flat list of weights; return `(output, h, c)`.

    `lstm(input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)` takes padded sequences `(T, N, in)`;
    `lstm(data, batch_sizes, (h, c), params, has_biases, num_layers, dropout, train, bidirectional)` takes packed ones.
    """
    return _run("lstm", "LSTM", args, kwargs)  # type: ignore[return-value]


def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run a GRU like `nn.GRU`; return `(output, h)`. Arguments are those of `lstm`, with h alone as the state."""
    return _run("gru", "GRU", args, kwargs)  # type: ignore[return-value]


def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run an RNN with tanh, h' = tanh(W_ih x + b_ih + W_hh h + b_hh); return `(output, h)`. Arguments as in `lstm`, with h as the state."""
    return _run("rnn_tanh", "RNN_TANH", args, kwargs)  # type: ignore[return-value]


def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run an RNN with ReLU, h' = relu(W_ih x + b_ih + W_hh h + b_hh); return `(output, h)`. Arguments as in `lstm`, with h as the state."""
    return _run("rnn_relu", "RNN_RELU", args, kwargs)  # type: ignore[return-value]


def _one_step(name: str, mode: str, input: Any, hx: Any, *weights: Any) -> tuple:
    pair = mode == "LSTM"
    for position, (what, x) in enumerate((("input", input), ("hx", hx), ("w_ih", weights[0]), ("w_hh", weights[1])), 1):
        if pair and what == "hx":
            if not isinstance(x, (tuple, list)):
                raise TypeError(f"{name}(): argument 'hx' (position 2) must be tuple of Tensors, not {type(x).__name__}")
        elif not isinstance(x, Tensor):
            raise TypeError(f"{name}(): argument '{what}' (position {position}) must be Tensor, not {type(x).__name__}")
    state = tuple(hx) if pair else (hx,)
    for x in (input, *state):
        if x.ndim != 2:
            raise IndexError(f"{name}: expected input and state of 2 dimensions, (N, size), but got {errors.describe(x)}")
    return cell(mode, input, state, *weights)


def lstm_cell(
    input: Tensor, hx: tuple[Tensor, Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """LSTM step: return `(h', c')`, each `(N, H)`, from an input `(N, in)` and `(h, c)`; weights are `(4H, in)` and `(4H, H)`."""
    return _one_step("lstm_cell", "LSTM", input, hx, w_ih, w_hh, b_ih, b_hh)  # type: ignore[return-value]


def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """GRU step: return h' `(N, H)` from an input `(N, in)` and h; weights are `(3H, in)` and `(3H, H)`."""
    return _one_step("gru_cell", "GRU", input, hx, w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """RNN step with tanh: tanh(W_ih x + b_ih + W_hh h + b_hh), `(N, H)`; weights are `(H, in)` and `(H, H)`."""
    return _one_step("rnn_tanh_cell", "RNN_TANH", input, hx, w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """RNN step with ReLU: relu(W_ih x + b_ih + W_hh h + b_hh), `(N, H)`; weights are `(H, in)` and `(H, H)`."""
    return _one_step("rnn_relu_cell", "RNN_RELU", input, hx, w_ih, w_hh, b_ih, b_hh)[0]
