"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import engine
from engine import Tensor

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .odds import Odds
from .utils import broadcast_all, lazy_property


class NegativeBinomial(Odds, Distribution):
    """Successes with probability `probs` (or log odds `logits`) before `total_count` failures, which may be fractional."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        given, name = self._one_of(probs, logits)
        self.total_count, self._param = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(self._param)
        setattr(self, name, self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> NegativeBinomial:
        new = self._expanded(_instance, batch_shape, "total_count", "probs", "logits")
        new._param = new.__dict__["probs" if "probs" in new.__dict__ else "logits"]
        return new

    @property
    def mean(self) -> Tensor:
        return self.total_count * engine.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / engine.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(concentration=self.total_count, rate=engine.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with engine.no_grad():
            return engine.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        unnormalised = n * engine.nn.functional.logsigmoid(-self.logits) + value * engine.nn.functional.logsigmoid(self.logits)
        normaliser = -engine.lgamma(n + value) + engine.lgamma(1.0 + value) + engine.lgamma(n)
        return unnormalised - normaliser.masked_fill(n + value == 0.0, 0.0)
