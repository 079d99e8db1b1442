"""The Kumaraswamy distribution on the unit interval, with a closed-form inverse CDF."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant


def _moment(a: Tensor, b: Tensor, n: int) -> Tensor:
    """Return E[x^n] = b B(1 + n / a, b)."""
    arg = 1 + n / a
    return engine.exp(engine.lgamma(arg) + engine.lgamma(b) - engine.lgamma(arg + b)) * b


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy distribution with CDF 1 - (1 - x^concentration1)^concentration0."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(engine.full_like(self.concentration0, 0), engine.full_like(self.concentration0, 1), validate_args=validate_args)
        super().__init__(base, self._parts(), validate_args=validate_args)

    def _parts(self) -> list:
        return [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Kumaraswamy:
        new = self.__class__.__new__(self.__class__) if _instance is None else _instance
        new.concentration1, new.concentration0 = self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Tensor:
        return _moment(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-a * b).log1p()
        return log_mode.masked_fill((a < 1) | (b < 1), math.nan).exp()  # masked before exp, so that masked elements get no gradient

    @property
    def variance(self) -> Tensor:
        return _moment(self.concentration1, self.concentration0, 2) - engine.pow(self.mean, 2)

    def entropy(self) -> Tensor:
        a, b = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = engine.digamma(self.concentration0 + 1) + euler_constant
        return b + a * harmonic - engine.log(self.concentration1) - engine.log(self.concentration0)
