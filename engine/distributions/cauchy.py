"""The Cauchy (Lorentz) distribution, which has no mean."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class Cauchy(Distribution):
    """Cauchy distribution with median `loc` and half width at half maximum `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        numbers = not isinstance(loc, Tensor) and not isinstance(scale, Tensor)
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(Size() if numbers else self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return engine.full(self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return engine.full(self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Cauchy:
        return self._expanded(_instance, batch_shape, "loc", "scale")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return engine.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return engine.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
