"""Base class of distributions of |x| for a symmetric x with median 0."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class Half(TransformedDistribution):
    """Distribution of |x| for x from `whole`, with median 0 and the given `scale`."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(self.whole(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self.__class__.__new__(self.__class__) if _instance is None else _instance)

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return engine.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = self._taken(value)
        return engine.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def _taken(self, value: Any) -> Any:
        """Convert a validated value for `log_prob`."""
        return value

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
