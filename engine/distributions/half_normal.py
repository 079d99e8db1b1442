"""The half-normal distribution."""

from __future__ import annotations

import math

from engine import Tensor

from .half import Half
from .normal import Normal


class HalfNormal(Half):
    """Distribution of |x| for normal x with mean 0 and standard deviation `scale`."""

    whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
