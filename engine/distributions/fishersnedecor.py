"""The Fisher-Snedecor (F) distribution."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import at_least_tiny, broadcast_all


class FisherSnedecor(Distribution):
    """Ratio (chi2(df1) / df1) / (chi2(df2) / df2) of independent chi-squared variables."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        numbers = not isinstance(df1, Tensor) and not isinstance(df2, Tensor)
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(Size() if numbers else self.df1.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> FisherSnedecor:
        new = self._expanded(_instance, batch_shape, "df1", "df2")
        new._gamma1, new._gamma2 = self._gamma1.expand(batch_shape), self._gamma2.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        df2 = engine.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        df2 = engine.where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        first = self._gamma1.rsample(sample_shape)
        return at_least_tiny(first / self._gamma2.rsample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, quotient = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        normaliser = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        return normaliser + half1 * quotient.log() + (half1 - 1) * value.log() - (half1 + half2) * engine.log1p(quotient * value)
