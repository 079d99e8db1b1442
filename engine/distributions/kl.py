"""`kl_divergence`: closed-form Kullback-Leibler divergences, dispatched on the types of both distributions."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import engine
from engine import Tensor

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis, _batch_mv
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, holds
from .utils import euler_constant as EULER

__all__ = ["kl_divergence", "register_kl"]

_registry: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """Register the decorated `kl(p, q)` for two types; also used for subclasses that have no closer match."""
    for given in (type_p, type_q):
        if not isinstance(given, type):  # any class, as in PyTorch: libraries register duck-typed distributions
            raise TypeError(f"Expected a Distribution subclass but got {given}")

    def decorated(fn: Callable) -> Callable:
        _registry[type_p, type_q] = fn
        _found.cache_clear()
        return fn

    return decorated


@functools.cache
def _found(type_p: type, type_q: type) -> Callable | None:
    """Return the function registered for the closest match by p's class, then q's; warn if the other order disagrees."""
    matches = [(p, q) for p, q in _registry if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return None
    by_p = min(matches, key=lambda m: (type_p.__mro__.index(m[0]), type_q.__mro__.index(m[1])))
    by_q = min(matches, key=lambda m: (type_q.__mro__.index(m[1]), type_p.__mro__.index(m[0])))
    if _registry[by_p] is not _registry[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _registry[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return KL(p || q) for each pair in the batch. Raises NotImplementedError if no formula is registered."""
    fn = _found(type(p), type(q))
    if fn is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}")
    return fn(p, q)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Any, q: Any) -> Tensor:
    t1 = p.probs * (engine.nn.functional.softplus(-q.logits) - engine.nn.functional.softplus(-p.logits))
    t1 = engine.where(q.probs == 0, math.inf, t1)
    t1 = engine.where(p.probs == 0, 0.0, t1)
    t2 = (1 - p.probs) * (engine.nn.functional.softplus(q.logits) - engine.nn.functional.softplus(p.logits))
    t2 = engine.where(q.probs == 1, math.inf, t2)
    t2 = engine.where(p.probs == 1, 0.0, t2)
    return t1 + t2


@register_kl(Beta, Beta)
def _beta_beta(p: Any, q: Any) -> Tensor:
    sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma()
    t3 = (p.concentration1 - q.concentration1) * engine.digamma(p.concentration1)
    t4 = (p.concentration0 - q.concentration0) * engine.digamma(p.concentration0)
    return t1 - t2 + t3 + t4 + (sum_q - sum_p) * engine.digamma(sum_p)


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Any, q: Any) -> Tensor:
    if not holds(p.total_count >= q.total_count):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return engine.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = engine.where((q.probs == 0).expand_as(t), math.inf, t)
    return engine.where((p.probs == 0).expand_as(t), 0.0, t).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_continuous(p: Any, q: Any) -> Tensor:
    t1 = p.mean * (p.logits - q.logits)
    return t1 + p._log_normaliser() + engine.log1p(-p.probs) - q._log_normaliser() - engine.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Any, q: Any) -> Tensor:
    sum_p, sum_q = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = sum_p.lgamma() - sum_q.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t3 = p.concentration - q.concentration
    t4 = p.concentration.digamma() - sum_p.digamma().unsqueeze(-1)
    return t1 - t2 + (t3 * t4).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _family_family(p: Any, q: Any) -> Tensor:
    """Bregman divergence of the log normalizers (Nielsen and Nock, 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    p_natural = [v.detach().requires_grad_() for v in p._natural_params]
    normalizer = p._log_normalizer(*p_natural)
    gradients = engine.autograd.grad(normalizer.sum(), p_natural, create_graph=True)
    found = q._log_normalizer(*q._natural_params) - normalizer
    for pn, qn, g in zip(p_natural, q._natural_params, gradients, strict=True):
        found = found - _sum_rightmost((qn - pn) * g, len(q.event_shape))
    return found


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = engine.lgamma(q.concentration) - engine.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * engine.digamma(p.concentration)
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Any, q: Any) -> Tensor:
    ct1, ct2 = p.scale / q.scale, q.loc / q.scale
    ct3 = p.loc / q.scale
    t1 = -ct1.log() - ct2 + ct3
    t2 = ct1 * EULER
    t3 = engine.exp(ct2 + (1 + ct1).lgamma() - ct3)
    return t1 + t2 + t3 - (1 + EULER)


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - engine.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_half(p: Any, q: Any) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Any, q: Any) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * engine.exp(-apart / p.scale) - 1


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _lowrank_lowrank(p: Any, q: Any) -> Tensor:
    _same_event(p, q)
    t1 = q._log_det() - p._log_det()
    apart = q.loc - p.loc
    W, D = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    distance = (apart.pow(2) / D).sum(-1) - _batch_mahalanobis(q._capacitance, _batch_mv(W.mT / D.unsqueeze(-2), apart))
    # trace of q's precision times p's covariance, by the Woodbury identity
    A = engine.linalg.solve_triangular(q._capacitance, W.mT / D.unsqueeze(-2), upper=False)
    t31 = (p._unbroadcasted_cov_diag / D).sum(-1)
    t32 = _frobenius(p._unbroadcasted_cov_factor * D.rsqrt().unsqueeze(-1))
    t33 = _frobenius(A * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2))
    t34 = _frobenius(A.matmul(p._unbroadcasted_cov_factor))
    return 0.5 * (t1 + t31 + t32 - t33 - t34 + distance - p.event_shape[0])


def _frobenius(x: Tensor) -> Tensor:
    """Return the squared Frobenius norm of each matrix."""
    return x.pow(2).sum(dim=(-2, -1))


def _same_event(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two normals with different event shapes ({p.event_shape} and {q.event_shape}) cannot be computed"
        )


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_lowrank(p: Any, q: Any) -> Tensor:
    _same_event(p, q)
    t1 = q._log_det() - 2 * p._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    apart = q.loc - p.loc
    W, D = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    distance = (apart.pow(2) / D).sum(-1) - _batch_mahalanobis(q._capacitance, _batch_mv(W.mT / D.unsqueeze(-2), apart))
    A = engine.linalg.solve_triangular(q._capacitance, W.mT / D.unsqueeze(-2), upper=False)
    t31 = _frobenius(p._unbroadcasted_scale_tril * D.rsqrt().unsqueeze(-1))
    t32 = _frobenius(A.matmul(p._unbroadcasted_scale_tril))
    return 0.5 * (t1 + t31 - t32 + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _lowrank_multivariate(p: Any, q: Any) -> Tensor:
    _same_event(p, q)
    t1 = 2 * q._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) - p._log_det()
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    shape = engine.broadcast_shapes(q._unbroadcasted_scale_tril.shape[:-2], p._unbroadcasted_cov_factor.shape[:-2])
    n = p.event_shape[0]
    L = q._unbroadcasted_scale_tril.expand((*shape, n, n))
    W = p._unbroadcasted_cov_factor.expand((*shape, n, p.cov_factor.size(-1)))
    D = engine.diag_embed(p._unbroadcasted_cov_diag.sqrt()).expand((*shape, n, n))
    t3 = _frobenius(engine.linalg.solve_triangular(L, W, upper=False)) + _frobenius(engine.linalg.solve_triangular(L, D, upper=False))
    return 0.5 * (t1 + t3 + distance - n)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_multivariate(p: Any, q: Any) -> Tensor:
    _same_event(p, q)
    p_tril, q_tril = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    t1 = q_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) - p_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    shape = engine.broadcast_shapes(q_tril.shape[:-2], p_tril.shape[:-2])
    n = p.event_shape[0]
    trace = _frobenius(engine.linalg.solve_triangular(q_tril.expand((*shape, n, n)), p_tril.expand((*shape, n, n)), upper=False))
    return t1 + 0.5 * (trace + _batch_mahalanobis(q_tril, q.loc - p.loc) - n)


@register_kl(Normal, Normal)
def _normal_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p: Any, q: Any) -> Tensor:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Any, q: Any) -> Tensor:
    scale_ratio, alpha_ratio = p.scale / q.scale, q.alpha / p.alpha
    found = q.alpha * scale_ratio.log() - alpha_ratio.log() + alpha_ratio - 1
    return engine.where(p.support.lower_bound < q.support.lower_bound, math.inf, found)


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed_transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms:
        raise NotImplementedError("KL(p || q) of transformed distributions needs the same transforms")
    if p.event_shape != q.event_shape:
        raise NotImplementedError("KL(p || q) of transformed distributions needs the same event shape")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Any, q: Any) -> Tensor:
    return engine.where((q.low > p.low) | (q.high < p.high), math.inf, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Any, q: Any) -> Tensor:
    """Formula of Chyzak and Nielsen (2019)."""
    t1 = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return t1 - (4 * p.scale * q.scale).log()


@register_kl(Independent, Independent)
def _independent_independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) of independents needs the same reinterpreted_batch_ndims")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
