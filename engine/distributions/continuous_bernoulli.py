"""The continuous Bernoulli distribution on the unit interval (Loaiza-Ganem and Cunningham, 2019)."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Size, Tensor

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, holds, lazy_property, logits_to_probs, probs_to_logits


class ContinuousBernoulli(ExponentialFamily):
    """Density proportional to probs^x (1 - probs)^(1 - x) on [0, 1]. Series replace the formulas if `probs` is within `lims`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None
    ):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = probs if probs is not None else logits
        if probs is not None:
            self.probs = broadcast_all(probs)[0]
            if validate_args is not None and not holds(self.arg_constraints["probs"].check(self.probs)):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        else:
            (self.logits,) = broadcast_all(logits)
        self._param = self.probs if probs is not None else self.logits
        self._lims = lims
        super().__init__(self._param.size() if isinstance(given, Tensor) else Size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ContinuousBernoulli:
        new = self._expanded(_instance, batch_shape, "probs", "logits")
        new._param, new._lims = new.__dict__["probs" if "probs" in new.__dict__ else "logits"], self._lims
        return new

    def _outside(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self) -> Tensor:
        """Replace probabilities near 1/2 by `lims[0]`, since the formulas are 0 / 0 at 1/2."""
        return engine.where(self._outside(), self.probs, self._lims[0] * engine.ones_like(self.probs))

    def _log_normaliser(self) -> Tensor:
        """log(2 artanh(1 - 2 p) / (1 - 2 p)), or log 2 + 4/3 (p - 1/2)^2 + 104/45 (p - 1/2)^4 near 1/2."""
        cut = self._cut()
        below = engine.where(cut <= 0.5, cut, engine.zeros_like(cut))
        above = engine.where(cut >= 0.5, cut, engine.ones_like(cut))
        log = engine.log(engine.abs(engine.log1p(-cut) - engine.log(cut)))
        log = log - engine.where(cut <= 0.5, engine.log1p(-2.0 * below), engine.log(2.0 * above - 1.0))
        x = engine.pow(self.probs - 0.5, 2)
        return engine.where(self._outside(), log, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        cut = self._cut()
        mus = cut / (2.0 * cut - 1.0) + 1.0 / (engine.log1p(-cut) - engine.log(cut))
        x = self.probs - 0.5
        return engine.where(self._outside(), mus, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * engine.pow(x, 2)) * x)

    @property
    def stddev(self) -> Tensor:
        return engine.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        cut = self._cut()
        found = cut * (cut - 1.0) / engine.pow(1.0 - 2.0 * cut, 2) + 1.0 / engine.pow(engine.log1p(-cut) - engine.log(cut), 2)
        x = engine.pow(self.probs - 0.5, 2)
        return engine.where(self._outside(), found, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter in (0, 1), which is not the mean here."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self) -> Size:
        return self._param.size()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        u = engine.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        with engine.no_grad():
            return self.icdf(u)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = engine.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(u)

    def log_prob(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -engine.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_normaliser()

    def cdf(self, value: Any) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut()
        found = (engine.pow(cut, value) * engine.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = engine.where(self._outside(), found, value)
        return engine.where(
            engine.le(value, 0.0), engine.zeros_like(value), engine.where(engine.ge(value, 1.0), engine.ones_like(value), inside)
        )

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut()
        found = (engine.log1p(-cut + value * (2.0 * cut - 1.0)) - engine.log1p(-cut)) / (engine.log(cut) - engine.log1p(-cut))
        return engine.where(self._outside(), found, value)

    def entropy(self) -> Tensor:
        log0, log1 = engine.log1p(-self.probs), engine.log(self.probs)
        return self.mean * (log0 - log1) - self._log_normaliser() - log0

    @property
    def _natural_params(self) -> tuple:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Tensor:
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = engine.where(outside, x, (self._lims[0] - 0.5) * engine.ones_like(x))
        log = engine.log(engine.abs(engine.special.expm1(cut))) - engine.log(engine.abs(cut))
        return engine.where(outside, log, 0.5 * x + engine.pow(x, 2) / 24.0 - engine.pow(x, 4) / 2880.0)
