"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor

from .cauchy import Cauchy
from .half import Half


class HalfCauchy(Half):
    """Distribution of |x| for Cauchy x with median 0 and the given `scale`."""

    whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return engine.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def _taken(self, value: Any) -> Tensor:
        return engine.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
