"""Recurrent layers `RNN`, `LSTM` and `GRU`, and their single-step cells."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

from ..base.dtypes import float32
from ..core import casting
from ..core.naming import named
from ..core.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter, blank
from .recurrence import GATES, cell, layers
from .utils.rnn import PackedSequence


class RNNBase(Module):
    """Base of recurrent layers: stacked layers, one or two directions, padded or packed input."""

    mode: str
    proj_size = 0

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        if mode not in GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        for name, given, kind in (("bias", bias, bool), ("batch_first", batch_first, bool), ("hidden_size", hidden_size, int)):
            if not isinstance(given, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(given).__name__}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1, "
                f"but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        if input_size <= 0:
            raise ValueError("input_size must be greater than zero")
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
                "weight_ih": (GATES[mode] * hidden_size, input_size if layer == 0 else out_size * directions),
                "weight_hh": (GATES[mode] * hidden_size, out_size),
            }
            if bias:
                shapes |= {"bias_ih": (GATES[mode] * hidden_size,), "bias_hh": (GATES[mode] * hidden_size,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            ending = f"_l{layer}{'_reverse' * direction}"
            for name, shape in shapes.items():
                setattr(self, name + ending, blank(*shape, device=device, dtype=dtype))
            self._all_weights.append([name + ending for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize all weights from U(-k, k) with k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: the weights need not be contiguous."""

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Parameter]:
        """All weights in one list, as `engine.lstm` takes them."""
        return [weight for weights in self.all_weights for weight in weights]

    def _weights(self, at: int) -> list:
        found = {name.split("_l")[0]: getattr(self, name) for name in self._all_weights[at]}
        return [found.get(kind) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")]

    # -- initial state ----------------------------------------------------------------------------------------------------------

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

    def _check_dtype(self, input: Tensor) -> None:
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype and not casting.enabled():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: input.to({weight.dtype}), "
                f"or convert model: model.to({input.dtype})"
            )

    def _check_size(self, input: Tensor) -> None:
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}")

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

    # -- the checks under PyTorch's names, for subclasses that override `forward` -----------------------------------------------

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise an error if the input's dtype, number of dimensions or size does not fit; with `batch_sizes` it is packed rows."""
        self._check_dtype(input)
        dims = 3 if batch_sizes is None else 2
        if input.ndim != dims:
            raise RuntimeError(f"input must have {dims} dimensions, got {input.ndim}")
        self._check_size(input)

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of h for this input, `(layers * directions, N, H)`."""
        return self._expected(input, batch_sizes, self._state_sizes()[0])

    def _expected(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        batch = input.shape[0 if self.batch_first else 1] if batch_sizes is None else int(batch_sizes[0])
        return len(self._all_weights), batch, size

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise RuntimeError if the state has another shape; `msg` is formatted with the expected and the actual shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise an error if the input or the state does not fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the state with its sequences reordered by `permutation`, or unchanged if that is None."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # -- forward --------------------------------------------------------------------------------------------------------------

    def _run(self, data: Tensor, sizes: tuple[int, ...], start: tuple) -> tuple[Tensor, tuple]:
        weights = [self._weights(at) for at in range(len(self._all_weights))]
        return layers(self.mode, data, sizes, start, weights, 2 if self.bidirectional else 1, self.dropout if self.training else 0.0)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return `(output, last state)` for input `(T, N, in)`, `(N, T, in)` with `batch_first`, `(T, in)`, or packed; output alike."""
        if hx is not None and isinstance(hx, (tuple, list)) is not (len(self._state_sizes()) == 2):
            wanted = "a pair (h_0, c_0)" if len(self._state_sizes()) == 2 else "a Tensor"
            raise RuntimeError(f"{self._get_name()}: expected hx to be {wanted}, but got {type(hx).__name__}")
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        self._check_dims(input, hx)
        unbatched = input.ndim == 2
        self._check_dtype(input)
        self._check_size(input)
        if unbatched:
            x = input.unsqueeze(1)
            hx = None if hx is None else tuple(h.unsqueeze(1) for h in (hx if isinstance(hx, (tuple, list)) else (hx,)))
        else:
            x = input.transpose(0, 1) if self.batch_first else input
        steps, batch = x.shape[0], x.shape[1]
        if steps == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        start = self._start(hx, batch, x)
        data, state = self._run(x.reshape(steps * batch, self.input_size), (batch,) * steps, start)
        output = data.reshape(steps, batch, data.shape[-1])
        output._view = None  # no other tensor shares the rows: PyTorch's steps are stacked
        if unbatched:
            return output.squeeze(1), self._told(tuple(s.squeeze(1) for s in state))
        return named(output.transpose(0, 1) if self.batch_first else output, self._node()), self._told(state)

    def _node(self) -> str:
        """Return the name of PyTorch's output node; for float32 LSTMs PyTorch uses oneDNN's kernel."""
        if self.batch_first:
            return "Transpose0" if self.mode == "LSTM" else "Transpose1"
        one_dnn = self.mode == "LSTM" and not self.proj_size and self.weight_ih_l0.dtype is float32
        return "Cat0" if self.bidirectional else "MkldnnRnnLayer0" if one_dnn else "Stack0"

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = input
        self.check_input(data, batch_sizes)
        sizes = tuple(batch_sizes.tolist())
        start = self._start(hx, sizes[0], data)
        if hx is not None and order is not None:
            start = tuple(s.index_select(1, order) for s in start)
        out, state = self._run(data, sizes, start)
        if back is not None:
            state = tuple(s.index_select(1, back) for s in state)
        return PackedSequence(out, batch_sizes, order, back), self._told(state)

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
    """Elman RNN: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu; returns `(output, h)` (Elman 1990).

    Arguments and shapes are those of `LSTM`, plus `nonlinearity`, "tanh" or "relu"; h has shape `(layers * directions, N, hidden_size)`.
    """

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
    """Long short-term memory: `(output, (h, c))` for input `(T, N, input_size)` (Hochreiter & Schmidhuber 1997).

    i, f and o are sigmoids and g a tanh of W_ih x + b_ih + W_hh h + b_hh; c' = f c + i g and h' = o tanh(c'). With `proj_size`, h' = W_hr
    h'. `output` is `(T, N, directions * out)`, h `(layers * directions, N, out)`, and c `(layers * directions, N, hidden_size)`, where out
    is `proj_size` or `hidden_size`. Weights are initialized from U(-k, k) with k = 1 / sqrt(hidden_size).
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

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of c for this input, `(layers * directions, N, hidden_size)`."""
        return self._expected(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise an error if the input or the states `(h, c)` do not fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes), "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes), "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the states with their sequences reordered by `permutation`, or unchanged if that is None."""
        return hx if permutation is None else tuple(h.index_select(1, permutation) for h in hx)

    def _told(self, state: tuple) -> Any:
        return state


class GRU(RNNBase):
    """Gated recurrent unit: h' = (1 - z) n + z h, with n = tanh(W_in x + b_in + r (W_hn h + b_hn)) (Cho et al. 2014).

    r and z are sigmoids of W x + b + W' h + b'. Arguments and shapes are those of `LSTM`, without `proj_size` and c.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype)


# -- cells ----------------------------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """Base of recurrent cells: one step from an input `(N, input_size)` or `(input_size,)` and a state to the next state."""

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
        """Reinitialize all weights from U(-k, k) with k = 1 / sqrt(hidden_size)."""
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
                if h.ndim != input.ndim:
                    wanted = "1D or 2D" if h.ndim not in (1, 2) else f"{input.ndim}D like the input"
                    raise (ValueError if h.ndim not in (1, 2) else RuntimeError)(
                        f"{name}: Expected hidden to be {wanted}, got {h.ndim}D instead"
                    )
            state = tuple(h.unsqueeze(0) for h in state) if single else tuple(state)
        found = cell(mode, x, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return tuple(s.squeeze(0) for s in found) if single else found

    def extra_repr(self) -> str:
        bias = "" if self.bias is True else f", bias={self.bias}"
        mode = getattr(self, "nonlinearity", "tanh")
        return f"{self.input_size}, {self.hidden_size}{bias}{f', nonlinearity={mode}' if mode != 'tanh' else ''}"


class RNNCell(RNNCellBase):
    """One step of an `RNN`: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu; input `(N, input_size)`, state `(N, hidden_size)`."""

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
    """One step of an `LSTM`: `(h', c')`, each `(N, hidden_size)`, from an input `(N, input_size)` and `(h, c)`."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step("LSTM", input, hx)  # type: ignore[return-value]


class GRUCell(RNNCellBase):
    """One step of a `GRU`: h' `(N, hidden_size)` from an input `(N, input_size)` and h."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRU", input, None if hx is None else (hx,))[0]
