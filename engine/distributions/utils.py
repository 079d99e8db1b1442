"""Helpers of the distributions, under PyTorch's names: broadcasting, probability conversions and lazy attributes."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING, Any

import engine
from engine import Tensor

from ..backends.batch import Batched

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "_sum_rightmost", "tril_matrix_to_vec",
           "vec_to_tril_matrix"]  # fmt: skip

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple:
    """Broadcast tensors and scalars to one shape. Scalars take the dtype and device of the first tensor."""
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        kinds = ", ".join(type(v).__name__ for v in values)
        raise ValueError(
            f"Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__, got {kinds}"
        )
    like = next((v for v in values if isinstance(v, Tensor)), None)
    options = {"dtype": engine.get_default_dtype()} if like is None else {"dtype": like.dtype, "device": like.device}
    return tuple(engine.broadcast_tensors(*[v if isinstance(v, Tensor) else engine.tensor(v, **options) for v in values]))


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to [eps, 1 - eps] of the dtype."""
    eps = engine.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: the sigmoid of log odds, or the softmax of logits over the last dimension."""
    return engine.sigmoid(logits) if is_binary else engine.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the log odds, or the log probabilities, of clamped probabilities."""
    clamped = clamp_probs(probs)
    return engine.log(clamped) - engine.log1p(-clamped) if is_binary else engine.log(clamped)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Draw standard normal values. Libraries built on PyTorch's distributions import this private name."""
    return engine.normal(engine.zeros(shape, dtype=dtype, device=device), 1.0)


def holds(condition: Any) -> bool:
    """Return whether a boolean tensor is True everywhere; inside vmap, for all samples."""
    array = condition.array
    while array.__class__ is Batched:
        array = array.inner
    return bool(array.all())


def at_least_tiny(value: Tensor) -> Tensor:
    """Raise values that underflowed to 0, and have no logarithm, to the smallest normal value; the gradient is unchanged."""
    now = value.detach()
    raised = now.clamp(min=engine.finfo(value.dtype).tiny)
    return value if holds(raised == now) else value + (raised - now)


class lazy_property:
    """An attribute that is computed on first access, with gradients enabled, and cached."""

    def __init__(self, wrapped: Any):
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return property(self.wrapped, doc=self.__doc__)
        with engine.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value

    if TYPE_CHECKING:

        def __set__(self, instance: Any, value: Any) -> None: ...


def _sum_rightmost(value: Any, dim: int) -> Any:
    """Sum over the last `dim` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Flatten the lower triangle, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = engine.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Inverse of `tril_matrix_to_vec`, with zeros above the diagonal."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not round(n) - engine.finfo(vec.dtype).eps <= n <= round(n) + engine.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square "
            "D x D matrix."
        )
    n = round(n)
    rows, columns = engine.tril_indices(n, n, diag)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mat[..., rows, columns] = vec
    return mat
