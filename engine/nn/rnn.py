"""Recurrent layers: `RNN`, `LSTM`, `GRU`, and their single-step cells."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

from ..autograd import Function
from ..ops.join import cat, stack
from ..ops.recurrent import lstm_steps
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter, blank
from .utils.rnn import PackedSequence


class _TimeSteps(Function):
    """The rows of a packed sequence, one tensor for each time step; their gradients are joined in one go."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, sizes: tuple[int, ...]) -> tuple:
        ends = list(itertools.accumulate(sizes))
        return tuple(Tensor._wrap(input.array[end - n : end]) for n, end in zip(sizes, ends, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        return cat(grads), None


# -- one step of each kind: `gates` is what the input contributes, `step(gates, state, w_hh, b_hh, w_hr)` the next state --------------


def _tanh_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """h' = tanh(gates + W h + b)."""
    return (F.tanh(gates + F.linear(state[0], w_hh, b_hh)),)


def _relu_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """h' = relu(gates + W h + b)."""
    return (F.relu(gates + F.linear(state[0], w_hh, b_hh)),)


def _gru_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """h' = n + z (h - n), with r and z the reset and update gates and n = tanh(gates_n + r (W_n h + b_n))."""
    (h,) = state
    r, z, n = gates.chunk(3, -1)
    hr, hz, hn = F.linear(h, w_hh, b_hh).chunk(3, -1)
    n = F.tanh(n + F.sigmoid(r + hr) * hn)
    return (n + F.sigmoid(z + hz) * (h - n),)


def _lstm_step(gates: Tensor, state: tuple, w_hh: Tensor, b_hh: Tensor | None, w_hr: Tensor | None) -> tuple:
    """c' = f c + i g, h' = o tanh(c'), projected by W_hr when there is one."""
    h, c = state
    i, f, g, o = (gates + F.linear(h, w_hh, b_hh)).chunk(4, -1)
    c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
    h = F.sigmoid(o) * F.tanh(c)
    return (h if w_hr is None else F.linear(h, w_hr)), c


_STEPS = {"RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "LSTM": _lstm_step, "GRU": _gru_step}
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _scan(mode: str, data: Tensor, sizes: tuple[int, ...], start: tuple, weights: list, reverse: bool) -> tuple[Tensor, tuple]:
    """One layer in one direction over packed rows: the outputs, packed alike, and the last state of every sequence.

    `sizes[t]` is how many sequences are still running at step t; they are sorted by length, so a shorter batch is a prefix.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    if mode == "LSTM" and w_hr is None and sizes[0] == sizes[-1]:
        gates = F.linear(data, w_ih, None if b_ih is None else b_ih + b_hh).reshape(len(sizes), sizes[0], -1)
        out, last = lstm_steps((gates, *start, w_hh), reverse)
        return out.reshape(data.shape[0], -1), (out[0 if reverse else -1], last)
    step = _STEPS[mode]
    gates = _TimeSteps.apply(F.linear(data, w_ih, b_ih), sizes)
    outputs: list = [None] * len(sizes)
    steps = range(len(sizes))
    state = tuple(s[: sizes[-1]] if s.shape[0] != sizes[-1] else s for s in start) if reverse else start
    ended: list[tuple] = []  # states of the sequences that ended, the shortest first
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


class RNNBase(Module):
    """What the recurrent layers share: several layers, one or two directions, padded or packed input."""

    mode: str
    proj_size = 0

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1, "
                f"but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = mode, input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = batch_first, float(dropout), bidirectional, proj_size
        directions = 2 if bidirectional else 1
        out_size = proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer, direction in itertools.product(range(num_layers), range(directions)):
            shapes = {
                "weight_ih": (_GATES[mode] * hidden_size, input_size if layer == 0 else out_size * directions),
                "weight_hh": (_GATES[mode] * hidden_size, out_size),
            }
            if bias:
                shapes |= {"bias_ih": (_GATES[mode] * hidden_size,), "bias_hh": (_GATES[mode] * hidden_size,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            ending = f"_l{layer}{'_reverse' * direction}"
            for name, shape in shapes.items():
                setattr(self, name + ending, blank(*shape, device=device, dtype=dtype))
            self._all_weights.append([name + ending for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing to do: the weights need not lie side by side."""

    def _weights(self, at: int) -> list:
        found = {name.split("_l")[0]: getattr(self, name) for name in self._all_weights[at]}
        return [found.get(kind) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")]

    # -- the state that the sequences start from ------------------------------------------------------------------------------

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size,)

    def _start(self, hx: Any, batch: int, like: Tensor) -> tuple:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        if hx is None:
            return tuple(like.new_zeros((layers, batch, size)) for size in self._state_sizes())
        hx = hx if isinstance(hx, (tuple, list)) else (hx,)
        names = ("hidden",) if len(hx) == 1 else ("hidden[0]", "hidden[1]")
        for name, h, size in zip(names, hx, self._state_sizes(), strict=True):
            if tuple(h.shape) != (layers, batch, size):
                raise RuntimeError(f"Expected {name} size {(layers, batch, size)}, got {list(h.shape)}")
        return tuple(hx)

    def _check_dims(self, input: Tensor, hx: Any) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if hx is not None:
            states = hx if isinstance(hx, (tuple, list)) else (hx,)
            if any(h.ndim != input.ndim for h in states):
                kind = "batched" if input.ndim == 3 else "unbatched"
                dims = " and ".join(f"{h.ndim}-D" for h in states)
                raise RuntimeError(
                    f"For {kind} {input.ndim}-D input, hx should also be {input.ndim}-D but got {dims} tensor{'s' * (len(states) > 1)}"
                )

    # -- forward --------------------------------------------------------------------------------------------------------------

    def _run(self, data: Tensor, sizes: tuple[int, ...], start: tuple) -> tuple[Tensor, list[tuple]]:
        """All layers over packed rows: the outputs, and the last state of each layer and direction."""
        directions = 2 if self.bidirectional else 1
        ends = []
        for layer in range(self.num_layers):
            found = []
            for direction in range(directions):
                at = layer * directions + direction
                out, last = _scan(self.mode, data, sizes, tuple(s[at] for s in start), self._weights(at), bool(direction))
                found.append(out)
                ends.append(last)
            data = found[0] if directions == 1 else cat(found, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                data = F.dropout(data, self.dropout, True)
        return data, ends

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """`(output, last state)`: input `(T, N, in)`, `(N, T, in)` with `batch_first`, `(T, in)`, or packed; output alike."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_dims(input, hx)
        unbatched = input.ndim == 2
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}")
        if unbatched:
            x = input.unsqueeze(1)
            hx = None if hx is None else tuple(h.unsqueeze(1) for h in (hx if isinstance(hx, (tuple, list)) else (hx,)))
        else:
            x = input.transpose(0, 1) if self.batch_first else input
        steps, batch = x.shape[0], x.shape[1]
        if steps == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        start = self._start(hx, batch, x)
        data, ends = self._run(x.reshape(steps * batch, self.input_size), (batch,) * steps, start)
        output = data.reshape(steps, batch, data.shape[-1])
        state = self._stacked(ends)
        if unbatched:
            return output.squeeze(1), self._told(tuple(s.squeeze(1) for s in state))
        return (output.transpose(0, 1) if self.batch_first else output), self._told(state)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = input
        if data.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.shape[-1]}")
        sizes = tuple(batch_sizes.tolist())
        start = self._start(hx, sizes[0], data)
        if hx is not None and order is not None:
            start = tuple(s.index_select(1, order) for s in start)
        out, ends = self._run(data, sizes, start)
        state = self._stacked(ends)
        if back is not None:
            state = tuple(s.index_select(1, back) for s in state)
        return PackedSequence(out, batch_sizes, order, back), self._told(state)

    @staticmethod
    def _stacked(ends: list[tuple]) -> tuple:
        return tuple(stack(list(part)) for part in zip(*ends, strict=True))

    def _told(self, state: tuple) -> Any:
        return state[0]

    def extra_repr(self) -> str:
        return "".join(
            (
                f"{self.input_size}, {self.hidden_size}",
                f", proj_size={self.proj_size}" if self.proj_size else "",
                f", num_layers={self.num_layers}" if self.num_layers != 1 else "",
                "" if self.bias is not False else f", bias={self.bias}",
                f", batch_first={self.batch_first}" if self.batch_first else "",
                f", dropout={self.dropout}" if self.dropout else "",
                f", bidirectional={self.bidirectional}" if self.bidirectional else "",
            )
        )


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu. Arguments as `LSTM`, and `nonlinearity`."""

    nonlinearity: str

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: `(output, (h, c))` from input `(T, N, input_size)`.

    i, f, o are sigmoids and g a tanh of W_ih x + b_ih + W_hh h + b_hh; c' = f c + i g; h' = o tanh(c'). With `proj_size`, h' = W_hr h'.
    `output` is `(T, N, directions * out)`, h `(layers * directions, N, out)`, c `(layers * directions, N, hidden_size)`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device=device, dtype=dtype
        )

    def _state_sizes(self) -> tuple[int, ...]:
        return self.proj_size or self.hidden_size, self.hidden_size

    def _told(self, state: tuple) -> Any:
        return state


class GRU(RNNBase):
    """Gated recurrent unit: r and z are sigmoids, n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype)


# -- cells ----------------------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """One step of a recurrent layer: `(N, input_size)` or `(input_size,)` and a state to the next state."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_ih = blank(num_chunks * hidden_size, input_size, device=device, dtype=dtype)
        self.weight_hh = blank(num_chunks * hidden_size, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, blank(num_chunks * hidden_size, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, mode: str, input: Tensor, state: Any) -> tuple:
        name = self._get_name()
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        single = input.ndim == 1
        x = input.unsqueeze(0) if single else input
        if state is None:
            state = (x.new_zeros((x.shape[0], self.hidden_size)),) * (2 if mode == "LSTM" else 1)
        else:
            for h in state:
                if h.ndim not in (1, 2):
                    raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {h.ndim}D instead")
            state = tuple(h.unsqueeze(0) for h in state) if single else tuple(state)
            for h in state:
                if tuple(h.shape) != (x.shape[0], self.hidden_size):
                    raise RuntimeError(f"{name}: expected a hidden state of {(x.shape[0], self.hidden_size)}, got {tuple(h.shape)}")
        found = _STEPS[mode](F.linear(x, self.weight_ih, self.bias_ih), state, self.weight_hh, self.bias_hh, None)
        return tuple(s.squeeze(0) for s in found) if single else found

    def extra_repr(self) -> str:
        bias = "" if self.bias is True else f", bias={self.bias}"
        mode = getattr(self, "nonlinearity", "tanh")
        return f"{self.input_size}, {self.hidden_size}{bias}{f', nonlinearity={mode}' if mode != 'tanh' else ''}"


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None, dtype: Any = None
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: `(h', c')` from an input and `(h, c)`."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step("LSTM", input, hx)  # type: ignore[return-value]


class GRUCell(RNNCellBase):
    """One step of a `GRU`."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRU", input, None if hx is None else (hx,))[0]
