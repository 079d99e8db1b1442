"""Kullback-Leibler divergences between different types; infinite if p's support is not contained in q's."""

from __future__ import annotations

import math
from typing import Any

import engine
from engine import Tensor

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant as EULER


def _infinite_like(x: Tensor) -> Tensor:
    return engine.full_like(x, math.inf)


def _x_log_x(x: Tensor) -> Tensor:
    """Return x log x, with 0 at 0."""
    return engine.special.xlogy(x, x)


def _infinite(p_type: type, *q_types: type, of: str) -> None:
    for q_type in q_types:
        register_kl(p_type, q_type)(lambda p, q: _infinite_like(getattr(p, of)))


_infinite(Beta, Pareto, of="concentration1")
_infinite(ContinuousBernoulli, Pareto, of="probs")
_infinite(Exponential, Beta, ContinuousBernoulli, Pareto, Uniform, of="rate")
_infinite(Gamma, Beta, ContinuousBernoulli, Pareto, Uniform, of="concentration")
_infinite(Gumbel, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform, of="loc")
_infinite(Laplace, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform, of="loc")
_infinite(Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform, of="loc")
_infinite(Pareto, Beta, ContinuousBernoulli, Uniform, of="scale")
_infinite(Poisson, Bernoulli, Binomial, of="rate")


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - engine.log1p(-q.probs) - q._log_normaliser()


@register_kl(Beta, Exponential)
def _beta_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    t1, total = -p.entropy(), p.concentration1 + p.concentration0
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (q.concentration - 1) * (p.concentration1.digamma() - total.digamma())
    return t1 + t2 - t3 + q.rate * p.concentration1 / total


@register_kl(Beta, Normal)
def _beta_normal(p: Any, q: Any) -> Tensor:
    mean, variance = p.mean, q.scale.pow(2)
    t2 = 0.5 * (variance * 2 * math.pi).log()
    t3 = (mean * (1 - mean) / (p.concentration1 + p.concentration0 + 1) + mean.pow(2)) * 0.5
    return -p.entropy() + t2 + (t3 - mean * q.loc + q.loc.pow(2) * 0.5) / variance


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Tensor:
    found = -p.entropy() + (q.high - q.low).log()
    return engine.where((q.low > p.support.lower_bound) | (q.high < p.support.upper_bound), math.inf, found)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - engine.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _continuous_normal(p: Any, q: Any) -> Tensor:
    t2 = 0.5 * (math.log(2.0 * math.pi) + engine.square(q.loc / q.scale)) + engine.log(q.scale)
    t3 = (p.variance + engine.square(p.mean) - 2.0 * q.loc * p.mean) / (2.0 * engine.square(q.scale))
    return -p.entropy() + t2 + t3


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_uniform(p: Any, q: Any) -> Tensor:
    found = -p.entropy() + (q.high - q.low).log()
    outside = (q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)
    return engine.where(outside, math.inf, found)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -q.concentration * engine.log(ratio) + ratio + q.concentration.lgamma() + q.concentration * EULER - (1 + EULER)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    scale_rate, loc_scale = p.rate * q.scale, q.loc / q.scale
    t1 = scale_rate.log() - 1
    t2 = engine.exp(loc_scale) * scale_rate / (scale_rate + 1)
    return t1 - loc_scale + t2 + scale_rate.reciprocal()


@register_kl(Exponential, Normal)
def _exponential_normal(p: Any, q: Any) -> Tensor:
    variance, rate = q.scale.pow(2), p.rate.pow(2)
    t1 = 0.5 * engine.log(rate * variance * 2 * math.pi)
    return t1 - 1 + (rate.reciprocal() - q.loc / p.rate + q.loc.pow(2) * 0.5) / variance


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    beta_scale, loc_scale = p.rate * q.scale, q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    t2 = beta_scale.log() + p.concentration / beta_scale
    return t1 + t2 + engine.exp(loc_scale) * (1 + beta_scale.reciprocal()).pow(-p.concentration) - loc_scale


@register_kl(Gamma, Normal)
def _gamma_normal(p: Any, q: Any) -> Tensor:
    variance, rate = q.scale.pow(2), p.rate.pow(2)
    t1 = 0.5 * engine.log(rate * variance * 2 * math.pi) - p.concentration - p.concentration.lgamma()
    t2 = 0.5 * (p.concentration.pow(2) + p.concentration) / rate
    t3 = q.loc * p.concentration / p.rate
    t4 = 0.5 * q.loc.pow(2)
    return t1 + (p.concentration - 1) * p.concentration.digamma() + (t2 - t3 + t4) / variance


@register_kl(Gumbel, Normal)
def _gumbel_normal(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    t1 = 0.5 * math.log(2 * math.pi) - ratio.log()
    t2 = (math.pi * ratio * 0.5).pow(2) / 3
    t3 = ((p.loc + p.scale * EULER - q.loc) / q.scale).pow(2) * 0.5
    return t1 + t2 + t3 - (EULER + 1)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Any, q: Any) -> Tensor:
    variance = q.scale.pow(2)
    ratio = p.scale.pow(2) / variance
    t1 = 0.5 * engine.log(2 * ratio / math.pi)
    return -t1 + ratio + (0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)) / variance - 1


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    mean, scale = p.loc / q.scale, q.loc / q.scale
    variance = (p.scale / q.scale).pow(2)
    t1 = variance.log() * 0.5
    return mean - scale + engine.exp(-mean + 0.5 * variance + scale) - t1 - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    apart = p.loc - q.loc
    ratio, unit = p.scale / q.scale, apart / p.scale
    t1 = engine.log(ratio)
    t2 = math.sqrt(2 / math.pi) * p.scale * engine.exp(-0.5 * unit.pow(2))
    t3 = apart * engine.erf(math.sqrt(0.5) * unit)
    return -t1 + (t2 + t3) / q.scale - (0.5 * (1 + math.log(0.5 * math.pi)))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    scale_rate = p.scale * q.rate
    t1 = (p.alpha / scale_rate).log()
    t3 = p.alpha * scale_rate / (p.alpha - 1)
    return engine.where(p.alpha <= 1, math.inf, t1 - p.alpha.reciprocal() + t3 - 1)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    common = p.scale.log() + p.alpha.reciprocal()
    t1 = p.alpha.log() - common
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * common
    t4 = q.rate * p.alpha * p.scale / (p.alpha - 1)
    return engine.where(p.alpha <= 1, math.inf, t1 + t2 + t3 + t4 - 1)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    variance, common = 2 * q.scale.pow(2), p.scale / (p.alpha - 1)
    t1 = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    t2 = p.alpha.reciprocal()
    t3 = p.alpha * common.pow(2) / (p.alpha - 2)
    t4 = (p.alpha * common - q.loc).pow(2)
    return engine.where(p.alpha <= 2, math.inf, t1 - t2 + (t3 + t4) / variance - 1)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = engine.log(width)
    t2 = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    t3 = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    t4 = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return engine.where(outside, math.inf, t3 + t4 - t1 - t2)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous(p: Any, q: Any) -> Tensor:
    found = -p.entropy() - p.mean * q.logits - engine.log1p(-q.probs) - q._log_normaliser()
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return engine.where(outside, math.inf, found)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    found = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return engine.where(p.low < q.support.lower_bound, math.inf, found)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = width.log()
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    t4 = q.rate * (p.high + p.low) / 2
    return engine.where(p.low < q.support.lower_bound, math.inf, -t1 + t2 + t3 + t4)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    t1 = width.log() + 0.5 * (high + low)
    return t1 - width * (engine.exp(-high) - engine.exp(-low))


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = (math.sqrt(math.pi * 2) * q.scale / width).log()
    t2 = width.pow(2) / 12
    t3 = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return t1 + 0.5 * (t2 + t3) / q.scale.pow(2)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = (q.alpha * q.scale.pow(q.alpha) * width).log()
    t2 = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    return engine.where(p.low < q.support.lower_bound, math.inf, t2 * (q.alpha + 1) - t1)
