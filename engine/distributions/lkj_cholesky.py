"""The LKJ distribution of Cholesky factors of correlation matrices (Lewandowski, Kurowicka and Joe, 2009)."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all


class LKJCholesky(Distribution):
    """Lower Cholesky factors L (dim, dim) of correlation matrices, with density proportional to det(L L^T)^(concentration - 1)."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        batch_shape = self.concentration.size()
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = engine.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        offset = engine.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(batch_shape, Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> LKJCholesky:
        new = self._expanded(_instance, batch_shape, "concentration")
        new.dim, new._beta = self.dim, self._beta.expand(Size(batch_shape) + (self.dim,))
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Sample by the onion method: a random direction and length for each row."""
        with engine.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            u = engine.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
            direction = u / u.norm(dim=-1, keepdim=True)
            direction[..., 0, :].fill_(0.0)
            w = engine.sqrt(y) * direction
            eps = engine.finfo(w.dtype).tiny
            diagonal = engine.clamp(1 - engine.sum(w**2, dim=-1), min=eps).sqrt()
            return w + engine.diag_embed(diagonal)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = engine.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalised = engine.sum(order * diagonal.log(), dim=-1)
        # normalizing constant from theorem 2 of the paper
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        denominator = engine.lgamma(alpha) * less
        numerator = engine.mvlgamma(alpha - 0.5, less)
        return unnormalised - (0.5 * less * math.log(math.pi) + numerator - denominator)
