"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class GeneralizedPareto(Distribution):
    """P(X > x) = (1 + concentration z)^(-1 / concentration) with z = (x - loc) / scale; exp(-z) for concentration 0."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None):
        numbers = not any(isinstance(v, Tensor) for v in (loc, scale, concentration))
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(Size() if numbers else self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> GeneralizedPareto:
        return self._expanded(_instance, batch_shape, "loc", "scale", "concentration")

    def _split(self) -> tuple:
        """Return a mask of the concentrations close to 0, and the concentrations with 1 in their place."""
        zero = engine.isclose(self.concentration, engine.zeros_like(self.concentration))
        return zero, engine.where(zero, engine.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = engine.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._split()
        where = engine.where(zero, -z, -(1 + 1 / c) * engine.log1p(c * engine.where(zero, engine.zeros_like(z), z)))
        return where - engine.log(self.scale)

    def log_survival_function(self, value: Any) -> Tensor:
        """Return log P(X > value)."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, c = self._split()
        return engine.where(zero, -z, -engine.log1p(c * engine.where(zero, engine.zeros_like(z), z)) / c)

    def log_cdf(self, value: Any) -> Tensor:
        """Return log P(X <= value)."""
        return engine.log1p(-engine.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Tensor:
        return engine.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Tensor:
        zero, c = self._split()
        log = engine.log1p(-value)
        return self.loc + self.scale * engine.where(zero, -log, engine.expm1(-c * log) / c)

    def entropy(self) -> Tensor:
        return (engine.log(self.scale) + self.concentration + 1).expand(self._batch_shape)

    @property
    def mean(self) -> Tensor:
        below = self.concentration < 1
        safe = engine.where(below, self.concentration, 0.5)
        return engine.where(below, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        below = self.concentration < 0.5
        safe = engine.where(below, self.concentration, 0.25)
        return engine.where(below, self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe)), math.nan)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        high = engine.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, high)
