"""Distances between vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..core.arguments import parsed
from ..core.op import RULES_ONLY, Op, composite, functions
from ..core.tensor import Tensor
from .reduce import norm_slope


class gap_norm(Op):
    """The p-norm of differences over the last dimension, with the gradients of PyTorch's `cdist` and `pdist`.

    For p = inf every largest difference gets the whole gradient. The gradient of a nan difference is nan, also if `past_nans` leaves it out
    of the norm. For p = 0 all gradients are 0; for p < 1 that of a difference of 0 is.
    """

    home, inputs, exempt, formula = "", ("input",), RULES_ONLY, "sum(abs(input) ** p) ** (1 / p)"
    examples = tuple((((2, 3),), {"p": p}) for p in (0, 0.5, 1, 1.5, 2, 3, math.inf))
    def forward(xp, input, p, past_nans=False):
        if p == 0: return xp.sum(xp.minimum(xp.ceil(xp.abs(input)), 1), axis=-1)
        return xp.vector_norm(xp.where(xp.isnan(input), 0, input) if past_nans else input, p, -1)
    def d_input(xp, g, input, out, p):
        g, out = xp.expand_dims(g, -1), xp.expand_dims(out, -1)
        if p == 0: return xp.zeros_like(input)
        sign = xp.where(input == input, xp.sign(input), math.nan)
        if p == 1: return g * sign
        if p == math.inf: return g * sign * (1 - xp.minimum(xp.ceil(xp.abs(xp.abs(input) - out)), 1))
        slope = norm_slope(xp, g, input, out, p, -1)
        return xp.where(input == 0, 0, slope) if p < 1 else slope


@composite
@parsed
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
    return functions["linalg.vector_norm"](x1 - x2 + float(eps), p, -1, keepdim)


@composite
@parsed
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """p-norm distances between all pairs of rows of `(N, M)`: the N (N - 1) / 2 values above the diagonal, row by row."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got: {input.dtype.name}")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = (Tensor._wrap(places) for places in numpy.triu_indices(input.shape[0], 1))
    gaps: Any = input[first.to(input.device)] - input[second.to(input.device)]
    return gap_norm(gaps, p)


@composite
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """p-norm distances between the rows of (*, n, d) and (*, m, d): (*, n, m). The gradient between equal rows is 0."""
    if compute_mode not in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype.name}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x1.dtype != x2.dtype and x1.numel() and x2.numel():
        raise (RuntimeError if x1.dtype.itemsize > 2 else NotImplementedError)(f"cdist: expected scalar type {x1.dtype.name} but found {x2.dtype.name}")
    gaps = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return gap_norm(gaps, p, past_nans=p == math.inf).to(x1.dtype)  # empty inputs may have two dtypes; the result has the first
