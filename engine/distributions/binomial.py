"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import engine
from engine import Tensor

from . import constraints
from .distribution import Distribution
from .odds import Odds
from .utils import broadcast_all


class Binomial(Odds, Distribution):
    """Number of successes in `total_count` trials, each with success probability `probs` or log odds `logits`."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        given, name = self._one_of(probs, logits)
        self.total_count, self._param = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(self._param)
        setattr(self, name, self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Binomial:
        new = self._expanded(_instance, batch_shape, "total_count", "probs", "logits")
        new._param = new.__dict__["probs" if "probs" in new.__dict__ else "logits"]
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with engine.no_grad():
            return engine.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        choose = engine.lgamma(n + 1) - engine.lgamma(value + 1) - engine.lgamma(n - value + 1)
        # k log p + (n - k) log(1 - p) in terms of the logits, without overflow
        above = (self.logits + self.logits.clamp(min=0) - self.logits.clamp(max=0)) / 2  # max(logits, 0), with derivative 1/2 at 0
        normaliser = n * above + n * engine.log1p(engine.exp(-engine.abs(self.logits)))
        return value * self.logits + choose - normaliser

    def entropy(self) -> Tensor:
        n = int(self.total_count.max())
        if not (self.total_count == n).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(engine.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = int(self.total_count.max())
        if not (self.total_count == n).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = engine.arange(1 + n, dtype=self._param.dtype, device=self._param.device).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
