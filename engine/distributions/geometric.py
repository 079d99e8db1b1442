"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .distribution import Distribution
from .odds import Odds
from .utils import broadcast_all, holds


class Geometric(Odds, Distribution):
    """Number k of failures before the first success, with probability (1 - probs)^k probs."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        given, name = self._one_of(probs, logits)
        (self._param,) = broadcast_all(given)
        setattr(self, name, self._param)
        super().__init__(self._param.size() if isinstance(given, Tensor) else Size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not holds(self.probs > 0):
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution {self!r} "
                f"to be positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return engine.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def expand(self, batch_shape: Any, _instance: Any = None) -> Geometric:
        return self._expanded(_instance, batch_shape, "probs", "logits")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with engine.no_grad():
            u = self.probs.new_empty(shape).uniform_(engine.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)  # 0 log 0 is taken as 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return engine.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
