"""Distances between vectors: compositions of other ops."""

from __future__ import annotations

from typing import Any

import numpy

from ..arguments import parsed
from ..op import composite, functions
from ..tensor import Tensor


@composite
@parsed
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
    return functions["linalg.vector_norm"](x1 - x2 + float(eps), p, -1, keepdim)


@composite
@parsed
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distance between every two rows of a matrix `(N, M)`: the N (N - 1) / 2 numbers above the diagonal, row by row."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got: {input.dtype.name}")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = (Tensor._wrap(places) for places in numpy.triu_indices(input.shape[0], 1))
    gaps: Any = input[first.to(input.device)] - input[second.to(input.device)]
    return functions["linalg.vector_norm"](gaps, p, -1)
