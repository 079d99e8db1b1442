"""`torch._foreach_add` and so on: apply an op to each tensor of a list, as optimizers in libraries do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from ..core.tensor import Tensor
from ..ops.reduce import vector_norm

_OF_ONE = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10", "log1p",
    "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_Sets = Sequence[Any] | Any  # one per tensor, or one for all


def _rows(tensors: Sequence[Tensor], *given: _Sets) -> Any:
    """Zip the tensors with their arguments, repeating single ones."""
    if not len(tensors):
        raise RuntimeError("Tensor list must have at least one tensor.")
    for x in given:
        if isinstance(x, (list, tuple)) and len(x) != len(tensors):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(x)}")
    return zip(tensors, *(x if isinstance(x, (list, tuple)) else repeat(x) for x in given), strict=False)


def _of_one(op: Callable, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(op(t) for (t,) in _rows(tensors))


def _of_two(op: Callable, tensors: Sequence[Tensor], other: _Sets = None, **named: Any) -> tuple[Tensor, ...]:
    for name in ("scalar", "scalars", "exponent"):
        other = named.pop(name, other)
    return tuple(op(t, x, **named) for t, x in _rows(tensors, other))


def _of_three(op: Callable, tensors: Sequence[Tensor], tensor1: _Sets, tensor2: _Sets, value: _Sets = 1, *, scalars: _Sets = None) -> Any:
    value = value if scalars is None else scalars
    value = value.tolist() if isinstance(value, Tensor) else value
    return tuple(op(t, a, b, value=v) for t, a, b, v in _rows(tensors, tensor1, tensor2, value))


def _between(
    op: Callable, tensors: Sequence[Tensor], tensors1: _Sets, weight: _Sets = None, *, weights: _Sets = None
) -> tuple[Tensor, ...]:
    return tuple(op(t, a, w) for t, a, w in _rows(tensors, tensors1, weight if weights is None else weights))


def _powers(op: Callable, tensors: Sequence[Tensor] | float, exponent: _Sets) -> tuple[Tensor, ...]:
    if isinstance(tensors, (list, tuple)):
        return _of_two(op, tensors, exponent)
    return tuple(Tensor.__rpow__(x, tensors) for (x,) in _rows(exponent))  # a scalar raised to the power of each tensor


_KINDS: dict[str, tuple[Callable, str]] = {
    **{name: (_of_one, name) for name in _OF_ONE},
    **{name: (_of_two, name) for name in ("add", "sub", "mul", "div", "clamp_max", "clamp_min")},
    "pow": (_powers, "pow"),
    "maximum": (_of_two, "clamp_min"),  # also takes scalars and works in place
    "minimum": (_of_two, "clamp_max"),
    **{name: (_of_three, name) for name in ("addcdiv", "addcmul")},
    "lerp": (_between, "lerp"),
}


def _written(kind: Callable, op: Callable, tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Sequence[Tensor]:
    kind(op, tensors, *args, **kwargs)
    return tensors


for _name, (_kind, _method) in _KINDS.items():
    globals()[f"_foreach_{_name}"] = functools.partial(_kind, getattr(Tensor, _method))
    globals()[f"_foreach_{_name}_"] = functools.partial(_written, _kind, getattr(Tensor, f"{_method}_"))
_foreach_max = functools.partial(_of_one, getattr(Tensor, "max"))  # noqa: B009  set by an op


def _foreach_norm(tensors: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """Return the norm of each tensor."""
    return tuple(vector_norm(t, ord, dtype=dtype) for (t,) in _rows(tensors))


def _foreach_powsum(tensors: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """Return the sum of powers of each tensor's absolute values."""
    return tuple(t.abs().pow(ord).sum(dtype=dtype) for (t,) in _rows(tensors))


def _foreach_mm(tensors: Sequence[Tensor], mat2: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Multiply pairs of matrices from two lists."""
    return tuple(a.mm(b) for a, b in _rows(tensors, mat2))


def _foreach_clone(tensors: Sequence[Tensor], *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """Copy each tensor."""
    return tuple(t.clone(**({} if memory_format is None else {"memory_format": memory_format})) for (t,) in _rows(tensors))


def _foreach_copy_(tensors: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> Sequence[Tensor]:
    """Copy each tensor of `src` into the corresponding tensor, in place."""
    for t, source in _rows(tensors, src):
        t.copy_(source, non_blocking)
    return tensors


def _foreach_zero_(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Fill each tensor with zeros, in place."""
    for (t,) in _rows(tensors):
        t.zero_()
    return tensors
