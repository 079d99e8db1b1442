"""The engine as an array namespace with NumPy's names: a derivative rule that runs on this `xp` is recorded, so it has a derivative.

Ops with NumPy's name are found in the registry; this module defines those that NumPy spells differently.
"""

from __future__ import annotations

import sys as _sys
from typing import Any

import numpy as _numpy

from ..backends import kernels_attention as _attention
from ..backends import kernels_lstm as _lstm
from ..backends import kernels_rnn as _rnn
from ..base import dtypes as _dtypes
from .devices import namespace as _namespace
from .from_lists import to_array as _to_array
from .registry import registry as _registry
from .tensor import Tensor as _Tensor

records = True  # tells the tape to run rules on Tensors

_SPELLED = {
    "negative": "neg", "divide": "div", "subtract": "sub", "multiply": "mul", "power": "pow",
    "invert": "bitwise_not", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "copy": "clone", "clip": "clamp", "ldexp": "exponent_added", "put": "index_put", "sparse_rows": "add_rows", "windows": "unfold",
    "log_sigmoid": "logsigmoid",
    "from_parts": "complex", "write_through": "write_view", "read_through": "read_view",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    op = _registry.get(_SPELLED.get(name, name))
    if op is None:
        raise AttributeError(f"the engine has no op for {name!r}, which a derivative rule uses")
    globals()[name] = op.call
    return op.call


def log(x: Any) -> Any:
    """The logarithm, also of a Python number: the rule of `2 ** x` takes that of its base."""
    if isinstance(x, _Tensor):
        return _registry["log"].call(x)
    with _numpy.errstate(divide="ignore", invalid="ignore"):
        return _numpy.log(x).item()


def _axis(axis: Any, ndim: int) -> tuple:
    return tuple(range(ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if axis is not None and not isinstance(axis, int) and len(axis) == 0:
        return x
    return _registry["sum"].call(x, _axis(axis, x.ndim), keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _registry["mean"].call(x, _axis(axis, x.ndim), keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _registry["amax"].call(x, _axis(axis, x.ndim), keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _registry["amin"].call(x, _axis(axis, x.ndim), keepdims)


def cumsum(x: Any, axis: int) -> Any:
    return _registry["cumsum"].call(x, axis)


def flip(x: Any, axis: Any) -> Any:
    return _registry["flip"].call(x, _axis(axis, x.ndim))


def expand_dims(x: Any, axis: int) -> Any:
    return _registry["unsqueeze"].call(x, axis)


def squeeze(x: Any, axis: Any = None) -> Any:
    return _registry["squeeze"].call(x, axis) if axis is not None else _registry["squeeze"].call(x)


def transpose(x: Any, axes: Any) -> Any:
    return _registry["permute"].call(x, axes)


def swapaxes(x: Any, a: int, b: int) -> Any:
    return _registry["transpose"].call(x, a, b)


def quotients(x: Any) -> Any:
    """The recorded inverse: raises for a singular matrix and gives nan for a non-finite one, as in PyTorch."""
    one = _Tensor._wrap(_namespace(x.array).eye(x.shape[-1], dtype=x.array.dtype))
    return matrix_transpose(_registry["solve_matrix"].call(matrix_transpose(x), one))


def matrix_transpose(x: Any) -> Any:
    return _registry["transpose"].call(x, -2, -1)


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    return _registry["movedim"].call(x, source, destination)


def broadcast_to(x: Any, shape: tuple) -> Any:
    return x if tuple(x.shape) == tuple(shape) else _registry["broadcast_to"].call(x, shape)


spread_to = broadcast_to


def reshape(x: Any, shape: tuple) -> Any:
    return x if tuple(x.shape) == tuple(shape) else _registry["reshape"].call(x, shape)


def astype(x: Any, dtype: Any) -> Any:
    return _registry["to_dtype"].call(x, _dtypes.as_dtype(dtype))


def concatenate(xs: Any, axis: int = 0) -> Any:
    return _registry["cat"].call(xs, axis)


def stack(xs: Any, axis: int = 0) -> Any:
    return _registry["stack"].call(xs, axis)


def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
    return _registry["gather"].call(x, axis, indices)


def ascontiguousarray(x: Any) -> Any:
    return x


def new_zeros(beside: Any, shape: tuple, dtype: Any = None) -> Any:
    return _Tensor._wrap(_namespace(beside.array).new_zeros(beside.array, shape, dtype))


def _beside(x: Any, fill: Any) -> Any:
    return _Tensor._wrap(_namespace(x.array).full_like(x.array, fill))


def laid_out(x: Any, format: Any) -> Any:
    return _registry["clone"].call(x, memory_format=format)


def zeros_like(x: Any) -> Any:
    return _beside(x, 0)


def times_i(x: Any) -> Any:
    parts = (-_registry["imag"].call(x), _registry["real"].call(x)) if x.dtype.is_complex else (zeros_like(x), x)
    return _registry["complex"].call(*parts)


def ones_like(x: Any) -> Any:
    return _beside(x, 1)


def asarray(x: Any) -> Any:
    return x if isinstance(x, _Tensor) else _Tensor._wrap(_to_array(x))


# The backends' kernels, written in plain ops: used when a derivative is itself differentiated.


def normalize(x: Any, axes: tuple, eps: float, weight: Any = None, bias: Any = None) -> tuple:
    centre = mean(x, axes, True)
    apart = x - centre
    rstd = (mean(apart * apart, axes, True) + eps) ** -0.5
    out = apart * rstd
    out = out if weight is None else out * weight
    return out if bias is None else out + bias, centre, rstd


def normalize_input(g: Any, x: Any, centre: Any, rstd: Any, axes: tuple, weight: Any = None) -> Any:
    g, unit = g if weight is None else g * weight, (x - centre) * rstd
    apart = g - mean(g, axes, True)
    return rstd * (apart - unit * mean(apart * unit, axes, True))


def normalize_weight(g: Any, x: Any, centre: Any, rstd: Any, axes: tuple) -> Any:
    return sum(g * ((x - centre) * rstd), axes)


def log_sum_exp(x: Any) -> Any:
    most = x.detach().amax(_classes(x), True)
    return _registry["logsumexp"].call(x - most, _classes(x), True) + most  # nan for an infinite maximum


def softmax_minus(x: Any, lse: Any, scale: Any, g: Any, target: Any, ignore: int) -> Any:
    spread = _registry["class_spread"].call(broadcast_to(g, target.shape), target, None, x.shape, ignore)
    return _registry["exp"].call(x - lse) * expand_dims(broadcast_to(scale, target.shape), _classes(x)) - spread


def lstm(given: Any, h: Any, c: Any, weight: Any, reverse: bool) -> tuple:
    return _lstm.lstm_plainly(_sys.modules[__name__], given, h, c, weight, reverse)


def lstm_back(g: Any, dc: Any, h0: Any, c0: Any, weight: Any, out: Any, cells: Any, gates: Any, reverse: bool) -> list:
    return _lstm.lstm_back_plainly(_sys.modules[__name__], g, dc, h0, c0, weight, out, cells, gates, reverse)


def gru(given: Any, h: Any, weight: Any, bias: Any, reverse: bool) -> tuple:
    return _rnn.gru_plainly(_sys.modules[__name__], given, h, weight, bias, reverse)


def gru_back(g: Any, h0: Any, weight: Any, bias: Any, out: Any, gates: Any, reverse: bool) -> list:
    return _rnn.gru_back_plainly(_sys.modules[__name__], g, h0, weight, bias, out, gates, reverse)


def rnn(given: Any, h: Any, weight: Any, relu: bool, reverse: bool) -> Any:
    return _rnn.rnn_plainly(_sys.modules[__name__], given, h, weight, relu, reverse)


def rnn_back(g: Any, h0: Any, weight: Any, out: Any, relu: bool, reverse: bool) -> list:
    return _rnn.rnn_back_plainly(_sys.modules[__name__], g, h0, weight, out, relu, reverse)


def attention(query: Any, key: Any, value: Any, mask: Any, draws: Any, scale: float, causal: bool, dropout: float) -> tuple:
    kept = _kept(query, key, draws, dropout)
    return _attention.plainly(_sys.modules[__name__], query, key, value, mask, kept, scale, causal)


def attention_back(
    g: Any, query: Any, key: Any, value: Any, mask: Any, draws: Any, out: Any, logsumexp: Any, scale: float, causal: bool, dropout: float,
    to_mask: bool = False,
) -> list:  # fmt: skip
    kept, xp = _kept(query, key, draws, dropout), _sys.modules[__name__]
    return _attention.back_plainly(xp, g, query, key, value, mask, kept, out, logsumexp, scale, causal, to_mask)


def _kept(query: Any, key: Any, draws: Any, dropout: float) -> Any:
    if draws is None:
        return None
    return _Tensor._wrap(_namespace(draws.array).attention_kept(query.array, key.array, draws.array, dropout))


refusing: Any = None  # set by autograd.function: takes a value, and the tensor for which its derivative must raise


def ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> tuple:
    found = _namespace(log_probs.array).ctc(log_probs.array, *[x.array for x in (targets, input_lengths, target_lengths)], blank)
    return None, refusing(_Tensor._wrap(found[1]), log_probs)  # no derivative, as in PyTorch


def _classes(x: Any) -> int:
    return 1 if x.ndim > 1 else 0


def class_weights(target: Any, weight: Any, ignore: int, dtype: Any) -> Any:
    kernel = _namespace(target.array).class_weights
    return _Tensor._wrap(kernel(target.array, None if weight is None else weight.array, ignore, _dtypes.as_numpy(dtype)))
