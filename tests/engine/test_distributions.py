"""Distributions against SciPy's, against their own samples, and the regions and maps that they are made of."""

from __future__ import annotations

import numpy
import pytest
import scipy

import engine
from engine import distributions as d
from grouping import grouped

F64 = engine.float64


def t(*values):
    return engine.tensor(values[0] if len(values) == 1 else values, dtype=F64)


CONTINUOUS = {
    "Normal": (d.Normal(t(0.5), t(2.0)), lambda: scipy.stats.norm(0.5, 2.0)),
    "Laplace": (d.Laplace(t(0.5), t(2.0)), lambda: scipy.stats.laplace(0.5, 2.0)),
    "Cauchy": (d.Cauchy(t(0.5), t(2.0)), lambda: scipy.stats.cauchy(0.5, 2.0)),
    "Uniform": (d.Uniform(t(-1.0), t(3.0)), lambda: scipy.stats.uniform(-1.0, 4.0)),
    "Exponential": (d.Exponential(t(1.5)), lambda: scipy.stats.expon(scale=1 / 1.5)),
    "Gamma": (d.Gamma(t(2.5), t(0.5)), lambda: scipy.stats.gamma(2.5, scale=2.0)),
    "InverseGamma": (d.InverseGamma(t(3.5), t(0.5)), lambda: scipy.stats.invgamma(3.5, scale=0.5)),
    "Beta": (d.Beta(t(2.0), t(0.7)), lambda: scipy.stats.beta(2.0, 0.7)),
    "Chi2": (d.Chi2(t(3.0)), lambda: scipy.stats.chi2(3.0)),
    "StudentT": (d.StudentT(t(5.0), t(0.5), t(2.0)), lambda: scipy.stats.t(5.0, 0.5, 2.0)),
    "FisherSnedecor": (d.FisherSnedecor(t(4.0), t(9.0)), lambda: scipy.stats.f(4.0, 9.0)),
    "LogNormal": (d.LogNormal(t(0.2), t(0.5)), lambda: scipy.stats.lognorm(0.5, scale=numpy.exp(0.2))),
    "HalfNormal": (d.HalfNormal(t(2.0)), lambda: scipy.stats.halfnorm(scale=2.0)),
    "HalfCauchy": (d.HalfCauchy(t(2.0)), lambda: scipy.stats.halfcauchy(scale=2.0)),
    "Gumbel": (d.Gumbel(t(0.5), t(2.0)), lambda: scipy.stats.gumbel_r(0.5, 2.0)),
    "Weibull": (d.Weibull(t(2.0), t(1.5)), lambda: scipy.stats.weibull_min(1.5, scale=2.0)),
    "Pareto": (d.Pareto(t(2.0), t(3.5)), lambda: scipy.stats.pareto(3.5, scale=2.0)),
    "GeneralizedPareto": (d.GeneralizedPareto(t(0.5), t(2.0), t(0.2)), lambda: scipy.stats.genpareto(0.2, 0.5, 2.0)),
    "VonMises": (d.VonMises(t(0.5), t(2.0)), lambda: scipy.stats.vonmises(2.0, 0.5)),
}
DISCRETE = {
    "Bernoulli": (d.Bernoulli(t(0.3)), lambda: scipy.stats.bernoulli(0.3)),
    "Binomial": (d.Binomial(9, t(0.3)), lambda: scipy.stats.binom(9, 0.3)),
    "Geometric": (d.Geometric(t(0.3)), lambda: scipy.stats.geom(0.3, loc=-1)),
    "Poisson": (d.Poisson(t(4.5)), lambda: scipy.stats.poisson(4.5)),
    "NegativeBinomial": (d.NegativeBinomial(t(3.5), t(0.4)), lambda: scipy.stats.nbinom(3.5, 0.6)),
}


def pair(table, name):
    """A distribution and SciPy's. `scipy.stats` takes long to import: not where tests are only collected."""
    p, q = table[name]
    return p, q()


def close(found, expected, tolerance=1e-9):
    assert numpy.allclose(numpy.asarray(found), expected, rtol=tolerance, atol=tolerance)


@grouped("name", CONTINUOUS)
def test_densities(name):
    p, q = pair(CONTINUOUS, name)
    x = q.ppf(numpy.linspace(0.05, 0.95, 9))
    close(p.log_prob(t(x.tolist())), q.logpdf(x))
    try:
        close(p.cdf(t(x.tolist())), q.cdf(x))
        close(p.icdf(t([0.1, 0.6])), q.ppf([0.1, 0.6]))
    except NotImplementedError:
        assert name in ("Gamma", "InverseGamma", "Beta", "Chi2", "StudentT", "FisherSnedecor", "VonMises")  # PyTorch lacks one or both too


@grouped("name", CONTINUOUS)
def test_moments(name):
    p, q = pair(CONTINUOUS, name)
    if name == "VonMises":
        close(p.variance, 1 - numpy.abs(q.expect(lambda x: numpy.cos(x - 0.5))), 1e-6)
        return
    if name not in ("Cauchy", "HalfCauchy"):
        close(p.mean, q.mean(), 1e-8)
        close(p.variance, q.var(), 1e-8)
    if name != "FisherSnedecor":
        try:
            close(p.entropy(), q.entropy(), 1e-7)
        except NotImplementedError:
            assert name in ("FisherSnedecor",)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities(name):
    p, q = pair(DISCRETE, name)
    k = numpy.arange(2 if name == "Bernoulli" else 9)
    close(p.log_prob(t(k.astype(float).tolist())), q.logpmf(k))
    close(p.mean, q.mean())
    close(p.variance, q.var())


@grouped("name", [*CONTINUOUS, *DISCRETE])
def test_samples_follow_the_distribution(name):
    p, q = pair({**CONTINUOUS, **DISCRETE}, name)
    engine.manual_seed(3)
    drawn = p.sample((600,)).numpy()
    if name in CONTINUOUS:
        assert scipy.stats.kstest(drawn, q.cdf).pvalue > 1e-3
    else:
        assert abs(drawn.mean() - q.mean()) < 4 * q.std() / 600**0.5


GAMMAS = {
    "Gamma": (lambda a: d.Gamma(a, t(1.0)), 0.7, lambda a: a),
    "Beta": (lambda a: d.Beta(a, t(1.5)), 0.7, lambda a: a / (a + 1.5)),
    "Chi2": (lambda a: d.Chi2(a), 3.0, lambda a: a),
    "StudentT": (lambda a: d.StudentT(t(6.0), t(0.0), a), 1.5, lambda a: 0 * a),
}


@pytest.mark.parametrize("name", GAMMAS)
def test_gradients_of_samples_are_those_of_the_mean(name):
    make, value, mean = GAMMAS[name]
    a = t(value).requires_grad_()
    engine.manual_seed(0)
    samples = make(a).rsample((120,))
    each = engine.stack([engine.autograd.grad(s, a, retain_graph=True)[0] for s in samples])
    step = 1e-5
    expected = (mean(value + step) - mean(value - step)) / (2 * step)
    assert abs(each.mean().item() - expected) < 4 * each.std().item() / 120**0.5


def test_how_a_gamma_sample_moves_with_its_shape():
    """Along the quantile of a sample: dz/da at a constant distribution function, from SciPy's inverse."""
    from scipy import special

    from engine.backends.kernels_gamma import gamma_slope

    for a in (0.05, 0.4, 1.0, 3.0, 40.0, 900.0):
        z = special.gammaincinv(a, numpy.linspace(0.02, 0.98, 9))
        u, h = special.gammainc(a, z), a * 1e-4
        moved = (special.gammaincinv(a + h, u) - special.gammaincinv(a - h, u)) / (2 * h)
        assert numpy.allclose(gamma_slope(numpy.full(9, a), z), moved, rtol=2e-5)


def test_divergences_by_samples():
    engine.manual_seed(1)
    for p, q in [(d.Normal(t(0.0), t(1.0)), d.Laplace(t(0.3), t(1.5))), (d.Gamma(t(2.0), t(1.0)), d.Exponential(t(0.7))),
                 (d.Beta(t(2.0), t(3.0)), d.Beta(t(1.5), t(1.2))), (d.Gumbel(t(0.0), t(1.0)), d.Normal(t(0.5), t(2.0))),
                 (d.Normal(t(0.2), t(0.8)), d.Gumbel(t(0.0), t(1.0))), (d.Dirichlet(t([2.0, 1.5, 3.0])), d.Dirichlet(t([1.0, 1.0, 2.0]))),
                 (d.Uniform(t(0.1), t(0.7)), d.Beta(t(2.0), t(2.0)))]:  # fmt: skip
        x = p.sample((3000,))
        apart = p.log_prob(x) - q.log_prob(x)
        assert abs(d.kl_divergence(p, q).item() - apart.mean().item()) < 4 * apart.std().item() / 3000**0.5


def test_own_divergences_can_be_registered():
    class Own(d.Normal):
        pass

    class Like:
        pass

    @d.register_kl(Own, d.Normal)
    def kl(p, q):
        return engine.tensor(42.0)

    assert d.kl_divergence(Own(0.0, 1.0), d.Normal(0.0, 1.0)) == 42
    assert d.kl_divergence(d.Normal(0.0, 1.0), Own(0.0, 1.0)) == 0
    d.register_kl(Like, d.Normal)(lambda p, q: None)  # PyTorch takes every class: pyro's distributions are of a base of their own
    with pytest.raises(TypeError, match="Distribution subclass"):
        d.register_kl(3, d.Normal)


def test_a_changed_variable_has_the_density_of_its_inverse():
    base = d.Normal(t(0.0), t(1.0))
    p = d.TransformedDistribution(base, [d.AffineTransform(1.0, 2.0), d.SigmoidTransform()])
    x = t([0.2, 0.5, 0.9])
    z = (engine.logit(x) - 1) / 2
    close(p.log_prob(x), (base.log_prob(z) - engine.log(2 * x * (1 - x))).numpy())
    assert repr(p.support) == "Interval(lower_bound=0.0, upper_bound=1.0)"
    cached = d.ExpTransform(cache_size=1)
    y = cached(x)
    assert cached.inv(y) is x and cached.inv.inv is cached and d.ExpTransform() == d.ExpTransform()


def test_what_is_refused():
    with pytest.raises(ValueError, match="Expected parameter scale .* to satisfy the constraint GreaterThan"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="within the support"):
        d.Exponential(1.0).log_prob(engine.tensor(-1.0))
    with pytest.raises(ValueError, match="must be a Tensor"):
        d.Normal(0.0, 1.0).log_prob(1.0)
    with pytest.raises(ValueError, match="parameter low .* LessThan"):
        d.Uniform(1.0, 0.0)
    with pytest.raises(ValueError, match="at least one-dimensional"):
        d.Categorical(engine.tensor(1.0))
    with pytest.raises(NotImplementedError, match="No KL"):
        d.kl_divergence(d.Cauchy(0.0, 1.0), d.Normal(0.0, 1.0))


def test_regions_are_printed_as_pytorch_prints_them():
    assert repr(d.constraints.independent(d.constraints.positive, 1)) == "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)"
    mixture = d.MixtureSameFamily(d.Categorical(t(1.0, 1.0)), d.Poisson(t(1.0, 2.0)))
    assert repr(mixture.support) == "MixtureSameFamilyConstraint(IntegerGreaterThan(lower_bound=0))"
    assert repr(d.Uniform(0.0, 1.0).arg_constraints) == "{'low': LessThan(upper_bound=1.0), 'high': GreaterThan(lower_bound=0.0)}"


def test_an_empty_interval_is_refused_in_pytorchs_words():
    with pytest.raises(
        ValueError, match=r"parameter low .* of distribution Uniform.* to satisfy the constraint LessThan\(upper_bound=1.0\)"
    ):
        d.Uniform(2.0, 1.0)
    assert d.Uniform(2.0, 1.0, validate_args=False).mean.item() == 1.5


@pytest.mark.parametrize(
    "make", [lambda v: d.Chi2(v), lambda v: d.HalfNormal(v), lambda v: d.HalfCauchy(v)], ids=["Chi2", "HalfNormal", "HalfCauchy"]
)
def test_parameters_that_are_properties_are_checked(make):
    with pytest.raises(ValueError, match="to satisfy the constraint GreaterThan"):
        make(t([1.0, -1.0]))


def test_a_covariance_with_a_nan_is_refused():
    bad = engine.eye(3, dtype=F64)
    bad[1, 1] = float("nan")
    for checked in (True, False):
        with pytest.raises((ValueError, RuntimeError), match="positive-definite|PositiveDefinite"):
            d.MultivariateNormal(engine.zeros(3, dtype=F64), bad, validate_args=checked)


def test_one_matrix_under_a_batch_of_wisharts():
    factors = engine.linalg.cholesky(engine.stack([engine.eye(2, dtype=F64), 2 * engine.eye(2, dtype=F64) + 0.5]))
    x = engine.tensor([[1.5, 0.2], [0.2, 2.0]], dtype=F64)
    each = [scipy.stats.wishart(4.0, (L @ L.mT).numpy()).logpdf(x.numpy()) for L in factors]
    close(d.Wishart(t(4.0), scale_tril=factors).log_prob(x), each)


def test_moments_that_do_not_exist_have_no_slope():
    a, b = t([0.5]).requires_grad_(), t([0.6]).requires_grad_()
    mode = d.Kumaraswamy(a, b).mode
    assert mode.isnan()
    mode.sum().backward()
    assert a.grad == 0 == b.grad
    heavy = d.GeneralizedPareto(t(0.0), t(1.0), t([0.7, 1.5]))
    assert heavy.variance.isnan().all() and heavy.mean.isnan().tolist() == [False, True]


def test_inside_vmap_arguments_are_checked_and_gammas_drawn():
    vmap, m = engine.func.vmap, t([1.0, 2.0])
    close(vmap(lambda m: d.Normal(m, m).log_prob(t(0.3)))(m), scipy.stats.norm.logpdf(0.3, [1, 2], [1, 2]))
    close(vmap(lambda m: d.StudentT(m).log_prob(t(0.3)))(m), scipy.stats.t.logpdf(0.3, [1, 2]))
    with pytest.raises(ValueError, match="Expected parameter scale"):
        vmap(lambda m: d.Normal(m, m).log_prob(t(0.3)))(-m.reshape(2, 1))
    with pytest.raises(ValueError, match="within the support"):
        vmap(lambda v: d.Exponential(t([1.0])).log_prob(v))(t([[1.0], [-1.0]]))
    engine.manual_seed(0)
    whole = d.Gamma(m, t(1.0)).rsample()
    engine.manual_seed(0)
    assert engine.equal(vmap(lambda m: d.Gamma(m, t(1.0)).rsample(), randomness="different")(m), whole)
    same = vmap(lambda m: d.Gamma(m, t(1.0)).rsample(), randomness="same")(t([2.0, 2.0]))
    assert same[0] == same[1]
    engine.manual_seed(0)
    leaf = m.clone().requires_grad_()
    d.Gamma(leaf, t(1.0)).rsample().sum().backward()
    engine.manual_seed(0)
    close(engine.func.grad(lambda m: vmap(lambda m: d.Gamma(m, t(1.0)).rsample(), randomness="different")(m).sum())(m), leaf.grad)
