"""Initializers: each fills a tensor in place, without recording, and returns it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from ..autograd import no_grad
from ..base.errors import warn
from ..core import devices
from ..core.from_lists import to_array
from ..core.op import functions
from ..core.tensor import Tensor

_GAINS = {"linear": 1, "sigmoid": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_GAINS |= {f"conv{'_transpose' * t}{d}d": 1 for t in (0, 1) for d in (1, 2, 3)}


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """Return the gain that preserves variance through a nonlinearity; `param` is the negative slope of leaky_relu."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """Return `(fan_in, fan_out)` of a weight `(out, in, *kernel)`; ValueError for fewer than two dimensions."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    shape = tensor.shape
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


_calculate_fan_in_and_fan_out = fans  # PyTorch's name, widely used despite the underscore


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values from U(a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values from N(mean, std²)."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Tensor:
    """Fill with values from N(mean, std²) truncated to [a, b], which are absolute bounds, not multiples of std."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.", stacklevel=2
        )
    below = lambda x: (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0  # noqa: E731  the normal distribution function
    with no_grad():
        if below((b - mean) / std) - below((a - mean) / std) > 0.3:
            return _drawn_again(tensor, a, b, lambda x: x.normal_(mean, std, generator=generator))
        return _from_the_tail(tensor, mean, std, a, b, generator)


def _drawn_again(tensor: Tensor, a: float, b: float, draw: Callable[[Tensor], Tensor]) -> Tensor:
    """Redraw until each element has been inside [a, b] once; the bounds are rounded to the tensor's dtype."""
    low, high = (Tensor._wrap(to_array(bound, tensor.dtype)).item() for bound in (a, b))
    draw(tensor)
    while devices.known((outside := (tensor < low) | (tensor > high)).any()):
        tensor.copy_(draw(tensor.new_empty(tensor.shape)).where(outside, tensor))
    return tensor


def _from_the_tail(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Sample from U(a, b) with von Neumann rejection, for intervals that normal draws rarely hit; accept by relative density."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    tensor.uniform_(a, b, generator=generator)
    candidates, pending = tensor.clone(), None
    while pending is None or devices.known(pending.any()):
        if pending is not None:
            candidates.uniform_(a, b, generator=generator)
            tensor.copy_(candidates.where(pending, tensor))
        log_density = candidates.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        refused = tensor.new_empty(tensor.shape).uniform_(generator=generator).log_() > log_density
        pending = refused if pending is None else pending & refused
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with `val`."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def _put(tensor: Tensor, values: numpy.ndarray) -> Tensor:
    with no_grad():
        tensor.copy_(Tensor._wrap(devices.move(values.astype(tensor.array.dtype), tensor.device)))
    return tensor


def eye_(tensor: Tensor) -> Tensor:
    """Fill a 2D tensor with the identity matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _put(tensor, numpy.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a 3D to 5D convolution weight with the Dirac delta, so that as many channels as possible pass through unchanged."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    shape = tensor.shape
    if shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = shape[0] // groups
    values = numpy.zeros(shape)
    middle = tuple(k // 2 for k in shape[2:])
    for g in range(groups):
        for d in range(min(per_group, shape[1])):
            values[(g * per_group + d, d, *middle)] = 1
    return _put(tensor, values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values from U(-a, a), a = gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values from N(0, gain² 2 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _empty(tensor: Tensor) -> bool:
    """Return whether a tensor has no elements, with a warning if so."""
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return True
    return False


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Fill with values from U(-b, b), b = gain sqrt(3 / fan) (He et al. 2015); an empty tensor is returned unchanged."""
    if _empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Fill with values from N(0, gain² / fan) (He et al. 2015); an empty tensor is returned unchanged."""
    if _empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times gain, dimensions after the first flattened (Saxe et al. 2013)."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    flat = Tensor._wrap(numpy.empty((rows, columns), tensor.array.dtype))
    drawn = normal_(flat, generator=generator).array
    q, r = numpy.linalg.qr(drawn.T if rows < columns else drawn)
    q = q * numpy.sign(numpy.diagonal(r))
    return _put(tensor, (q.T if rows < columns else q).reshape(tensor.shape) * gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a 2D tensor with values from N(0, std²), then zero a fraction `sparsity` of each column (Martens 2010)."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0, std, generator)
    with no_grad():
        for column in range(columns):
            tensor[functions["randperm"](rows)[:zeros], column] = 0
    return tensor


def _old_name(new: Callable) -> Callable:
    """Return PyTorch's deprecated alias of an initializer, without the trailing underscore; it warns."""
    name = new.__name__

    def called(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.", FutureWarning, stacklevel=2)
        return new(*args, **kwargs)

    called.__name__ = called.__qualname__ = name[:-1]
    called.__doc__ = f"Deprecated name of `{name}`."
    return called


uniform, normal, constant, eye, dirac = map(_old_name, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = _old_name(xavier_uniform_), _old_name(xavier_normal_)
kaiming_uniform, kaiming_normal = _old_name(kaiming_uniform_), _old_name(kaiming_normal_)
orthogonal, sparse = _old_name(orthogonal_), _old_name(sparse_)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """Return the fan selected by `mode`, under PyTorch's name, which is widely used despite the underscore."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans(tensor)[mode == "fan_out"]
