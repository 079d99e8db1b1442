"""Convert parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.tensor import Tensor
from ...ops.join import cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Flatten and concatenate all parameters into one 1D tensor, differentiably."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Split a vector into parameters: the data of each becomes a view of its slice."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__name__}")
    at = 0
    for param in parameters:
        n = param.numel()
        param.data = vec[at : at + n].reshape(param.shape).detach()
        at += n
