"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all


class StudentT(Distribution):
    """Distribution of loc + scale z / sqrt(chi2 / df), for standard normal z and chi-squared chi2 with `df` degrees of freedom."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.df > 2
        safe = engine.where(finite, self.df, 3.0)
        found = engine.where(finite, self.scale.pow(2) * safe / (safe - 2), math.inf)
        return found.masked_fill(self.df <= 1, math.nan)

    def expand(self, batch_shape: Any, _instance: Any = None) -> StudentT:
        new = self._expanded(_instance, batch_shape, "df", "loc", "scale")
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, self.df.dtype, self.df.device)
        return self.loc + self.scale * (x * engine.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        z = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + engine.lgamma(0.5 * self.df)
            - engine.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * engine.log1p(y**2.0 / self.df) - z

    def entropy(self) -> Tensor:
        log_beta = engine.lgamma(0.5 * self.df) + math.lgamma(0.5) - engine.lgamma(0.5 * (self.df + 1))
        step = engine.digamma(0.5 * (self.df + 1)) - engine.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * step + 0.5 * self.df.log() + log_beta
