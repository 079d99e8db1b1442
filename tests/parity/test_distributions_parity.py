"""Every distribution beside PyTorch's: densities, moments, entropies, functions, samples under a seed, gradients, divergences."""

from __future__ import annotations

import itertools

import numpy
import pytest
import torch
import torch.distributions as theirs

import engine
from engine import distributions as ours

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SPD = [[2.0, 0.3, -0.1], [0.3, 1.5, 0.2], [-0.1, 0.2, 1.0]]
TRIL = [[1.2, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.1, 1.5]]
CASES: dict[str, list[dict]] = {  # name -> parameters as lists; numbers stay numbers
    "Bernoulli": [{"probs": [0.2, 0.5, 0.9]}, {"logits": [-1.0, 0.0, 2.0]}, {"probs": 0.3}],
    "Beta": [{"concentration1": [0.6, 2.0], "concentration0": [1.5, 0.9]}, {"concentration1": 2.0, "concentration0": 3.0}],
    "Binomial": [{"total_count": 5, "probs": [0.2, 0.7]}, {"total_count": 12, "logits": [-1.0, 0.0]}, {"total_count": 40, "probs": [0.5, 0.9]}],
    "Categorical": [{"probs": [[0.1, 0.6, 0.3], [2.0, 1.0, 1.0]]}, {"logits": [0.5, -1.0, 2.0]}],
    "Cauchy": [{"loc": [0.0, 1.0], "scale": [1.0, 0.3]}],
    "Chi2": [{"df": [0.7, 3.0, 12.0]}],
    "ContinuousBernoulli": [{"probs": [0.1, 0.4995, 0.8]}, {"logits": [-1.0, 0.001, 2.0]}],
    "Dirichlet": [{"concentration": [[0.5, 1.5, 3.0], [2.0, 2.0, 0.8]]}],
    "Exponential": [{"rate": [0.5, 3.0]}, {"rate": 1.5}],
    "FisherSnedecor": [{"df1": [3.0, 5.0], "df2": [6.0, 9.0]}],
    "Gamma": [{"concentration": [0.4, 2.5, 30.0], "rate": [1.0, 0.5, 3.0]}],
    "GeneralizedPareto": [{"loc": [0.0, 1.0, 0.0], "scale": [1.0, 2.0, 0.5], "concentration": [0.2, -0.4, 0.0]}],
    "Geometric": [{"probs": [0.2, 0.8]}, {"logits": [-1.0, 1.0]}],
    "Gumbel": [{"loc": [0.0, 2.0], "scale": [1.0, 0.5]}],
    "HalfCauchy": [{"scale": [1.0, 0.4]}],
    "HalfNormal": [{"scale": [1.0, 0.4]}],
    "InverseGamma": [{"concentration": [2.5, 4.0], "rate": [1.0, 2.0]}],
    "Kumaraswamy": [{"concentration1": [2.0, 1.5], "concentration0": [3.0, 1.2]}],
    "Laplace": [{"loc": [0.0, -1.0], "scale": [1.0, 0.3]}],
    "LKJCholesky": [{"dim": 3, "concentration": [0.7, 2.0]}],
    "LogNormal": [{"loc": [0.0, 0.5], "scale": [1.0, 0.3]}],
    "LogisticNormal": [{"loc": [0.1, -0.4], "scale": [1.0, 0.5]}],
    "LowRankMultivariateNormal": [{"loc": [0.1, 0.2, 0.3], "cov_factor": [[1.0, 0.2], [0.3, 0.5], [0.0, 1.0]], "cov_diag": [0.5, 1.0, 0.3]}],
    "Multinomial": [{"total_count": 6, "probs": [0.2, 0.5, 0.3]}, {"total_count": 4, "logits": [[0.0, 1.0], [0.5, -1.0]]}],
    "MultivariateNormal": [
        {"loc": [0.0, 1.0, 2.0], "covariance_matrix": SPD}, {"loc": [0.0, 1.0, 2.0], "precision_matrix": SPD},
        {"loc": [[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]], "scale_tril": TRIL},
    ],
    "NegativeBinomial": [{"total_count": [3.0, 5.5], "probs": [0.3, 0.6]}, {"total_count": 4, "logits": [-1.0, 0.5]}],
    "Normal": [{"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.3, 2.0]}, {"loc": 0.5, "scale": 2.0}],
    "OneHotCategorical": [{"probs": [[0.1, 0.6, 0.3], [0.5, 0.25, 0.25]]}],
    "OneHotCategoricalStraightThrough": [{"logits": [0.5, -1.0, 2.0]}],
    "Pareto": [{"scale": [1.0, 0.5], "alpha": [2.5, 3.0]}],
    "Poisson": [{"rate": [0.5, 4.0, 30.0]}],
    "RelaxedBernoulli": [{"temperature": [0.7, 0.4], "probs": [0.3, 0.8]}],
    "RelaxedOneHotCategorical": [{"temperature": [0.7], "probs": [0.3, 0.5, 0.2]}],
    "StudentT": [{"df": [1.5, 3.0, 8.0], "loc": [0.0, 1.0, 2.0], "scale": [1.0, 2.0, 0.5]}],
    "Uniform": [{"low": [0.0, -1.0], "high": [1.0, 3.0]}],
    "VonMises": [{"loc": [0.1, 1.0], "concentration": [0.5, 4.0]}],
    "Weibull": [{"scale": [1.0, 2.0], "concentration": [1.5, 0.8]}],
    "Wishart": [{"df": 4.5, "covariance_matrix": SPD}, {"df": 5.0, "scale_tril": TRIL}],
}  # fmt: skip
OTHER_STREAM = {"Wishart"}  # PyTorch throws its first draw away where it is regular, and draws again
asked = [pytest.param(name, params, id=f"{name}-{i}") for name, rows in CASES.items() for i, params in enumerate(rows)]


def made(E, place, name, params, grad=False):
    """The distribution in one library, and its parameters that are tensors."""
    dtype = E.float32 if name == "GeneralizedPareto" else E.float64  # PyTorch's own compares its concentration with a float32 zero
    tensors = {k: E.tensor(v, dtype=dtype, requires_grad=grad) for k, v in params.items() if isinstance(v, list)}
    kind = getattr(place, name)
    return kind(**{**params, **tensors}), tensors


def both(name, params):
    return made(torch, theirs, name, params)[0], made(engine, ours, name, params)[0]


def number(x):
    return x.detach().numpy() if hasattr(x, "detach") else numpy.asarray(x)


def close(a, b, tolerance=1e-9):
    a, b = number(a), number(b)
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    tolerance = max(tolerance, 1e-5) if a.dtype == numpy.float32 else tolerance
    assert numpy.allclose(b, a, rtol=tolerance, atol=tolerance, equal_nan=True), (a, b)


def test_every_name_is_there():
    assert set(theirs.__all__) - set(ours.__all__) == set()
    abstract = {"Distribution", "ExponentialFamily", "TransformedDistribution", "Independent", "MixtureSameFamily"}
    kinds = {n for n in theirs.__all__ if isinstance(getattr(theirs, n), type) and issubclass(getattr(theirs, n), theirs.Distribution)}
    assert kinds - abstract == set(CASES)


@pytest.mark.parametrize(("name", "params"), asked)
def test_what_it_tells(name, params):
    p, q = both(name, params)
    assert tuple(p.batch_shape) == tuple(q.batch_shape) and tuple(p.event_shape) == tuple(q.event_shape)
    assert p.has_rsample == q.has_rsample and p.has_enumerate_support == q.has_enumerate_support
    assert repr(p) == repr(q)
    for told in ("mean", "mode", "variance", "stddev"):
        try:
            answer = getattr(p, told)
        except (NotImplementedError, RuntimeError):
            continue
        close(answer, getattr(q, told), 1e-7)
    try:
        answer = p.entropy()
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            q.entropy()
    else:
        close(answer, q.entropy())


@pytest.mark.parametrize(("name", "params"), [c for c in asked if c.values[0] not in OTHER_STREAM])
def test_samples_under_a_seed(name, params):
    p, q = both(name, params)
    for shape in ((), (3,), (2, 4)):
        torch.manual_seed(5)
        engine.manual_seed(5)
        close(p.sample(shape), q.sample(shape), 1e-7)


@pytest.mark.parametrize(("name", "params"), asked)
def test_densities_and_functions(name, params):
    p, q = both(name, params)
    torch.manual_seed(1)
    values = p.sample((6,))
    mine = engine.tensor(values.numpy())
    (d, _), (e, _) = made(torch, theirs, name, params, True), made(engine, ours, name, params, True)
    close(d.log_prob(values), e.log_prob(mine), 1e-6 if name == "VonMises" else 1e-8)  # PyTorch has polynomials for Bessel functions
    for fn in ("cdf",):
        try:
            answer = getattr(p, fn)(values)
        except NotImplementedError:
            continue
        close(answer, getattr(q, fn)(mine), 1e-7)
    try:
        u = torch.rand((4, *p.batch_shape), dtype=torch.float64)
        answer = p.icdf(u)
    except NotImplementedError:
        pass
    else:
        close(answer, q.icdf(engine.tensor(u.numpy())), 1e-7)
    if p.has_enumerate_support and name != "Binomial":
        close(p.enumerate_support(), q.enumerate_support())
        close(p.enumerate_support(expand=False), q.enumerate_support(expand=False))


with_leaves = [c for c in asked if any(isinstance(v, list) for v in c.values[1].values())]


@pytest.mark.parametrize(("name", "params"), with_leaves)
def test_gradients(name, params):
    (p, a), (q, b) = made(torch, theirs, name, params, True), made(engine, ours, name, params, True)
    torch.manual_seed(2)
    values = p.sample((5,)).detach()
    leaves, mine = [*a.values()], [*b.values()]
    found = torch.autograd.grad(p.log_prob(values).sum(), leaves, allow_unused=True)
    mirrored = engine.autograd.grad(q.log_prob(engine.tensor(values.numpy())).sum(), mine, allow_unused=True)
    for x, y in zip(found, mirrored, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            x, y = (v.tril() if name == "Wishart" else v for v in (x, y))  # the upper triangle of a factor is not read
            close(x, y, 1e-6)


@pytest.mark.parametrize(
    ("name", "params"), [c for c in with_leaves if getattr(theirs, c.values[0]).has_rsample is True and c.values[0] not in OTHER_STREAM]
)
def test_reparameterised_gradients(name, params):
    (p, a), (q, b) = made(torch, theirs, name, params, True), made(engine, ours, name, params, True)
    torch.manual_seed(3)
    engine.manual_seed(3)
    x, y = p.rsample((4,)), q.rsample((4,))
    close(x, y, 1e-7)
    weights = numpy.random.default_rng(0).normal(size=tuple(x.shape))
    found = torch.autograd.grad((x * torch.tensor(weights)).sum(), [*a.values()], allow_unused=True)
    mirrored = engine.autograd.grad((y * engine.tensor(weights)).sum(), [*b.values()], allow_unused=True)
    for s, t in zip(found, mirrored, strict=True):
        assert (s is None) == (t is None)
        if s is not None:
            close(s, t, 2e-3)  # PyTorch approximates how gamma samples move with their shape


@pytest.mark.parametrize(("name", "params"), asked)
def test_expand(name, params):
    p, q = both(name, params)
    shape = (2, *p.batch_shape)
    p, q = p.expand(shape), q.expand(shape)
    assert tuple(q.batch_shape) == shape and tuple(p.event_shape) == tuple(q.event_shape)
    torch.manual_seed(4)
    values = p.sample()
    close(p.log_prob(values), q.log_prob(engine.tensor(values.numpy())), 1e-6)
    engine.manual_seed(4)
    if name not in OTHER_STREAM:
        close(values, q.sample(), 1e-7)


@pytest.mark.parametrize("params", CASES["Wishart"])
def test_the_mean_of_wishart_samples(params):
    p = made(engine, ours, "Wishart", params)[0]
    engine.manual_seed(0)
    drawn = p.sample((3000,))
    error = (drawn.mean(0) - p.mean).abs() / (p.variance / 3000).sqrt()
    assert error.max() < 4


def test_divergences():
    seen = 0
    for (n, ps), (m, qs) in itertools.product(CASES.items(), CASES.items()):
        (p, q), (r, s) = both(n, ps[0]), both(m, qs[-1] if n == m else qs[0])
        try:
            answer = theirs.kl_divergence(p, r)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # not defined, or the batches do not fit
        close(answer, ours.kl_divergence(q, s), 1e-7)
        seen += 1
    assert seen > 50


def test_mixtures_and_independents():
    def mixture(E, d):
        return d.MixtureSameFamily(
            d.Categorical(E.tensor([0.3, 0.7], dtype=E.float64)),
            d.Normal(E.tensor([0.0, 2.0], dtype=E.float64), E.tensor([1.0, 0.5], dtype=E.float64)),
        )

    p, q = mixture(torch, theirs), mixture(engine, ours)
    x = numpy.linspace(-2, 4, 7)
    close(p.log_prob(torch.tensor(x)), q.log_prob(engine.tensor(x)))
    close(p.cdf(torch.tensor(x)), q.cdf(engine.tensor(x)))
    close(p.mean, q.mean)
    close(p.variance, q.variance)
    torch.manual_seed(0)
    engine.manual_seed(0)
    close(p.sample((5,)), q.sample((5,)))
    assert repr(p) == repr(q)
    i, j = (d.Independent(d.Normal(E.zeros(3, 2), E.ones(3, 2)), 1) for E, d in ((torch, theirs), (engine, ours)))
    assert repr(i) == repr(j) and tuple(i.batch_shape) == tuple(j.batch_shape)
    close(i.log_prob(torch.ones(3, 2)), j.log_prob(engine.ones(3, 2)), 1e-6)
    close(i.entropy(), j.entropy(), 1e-6)


SCALAR = ["ExpTransform()", "SigmoidTransform()", "TanhTransform()", "SoftplusTransform()", "AffineTransform(0.5, -2.0)", "PowerTransform(2.0)",
          "ComposeTransform([AffineTransform(1.0, 0.5), ExpTransform()])", "ExpTransform().inv",
          "CumulativeDistributionTransform(Normal(0.0, 1.0))"]  # fmt: skip
VECTOR = ["StickBreakingTransform()", "SoftmaxTransform()", "CorrCholeskyTransform()", "IndependentTransform(ExpTransform(), 1)",
          "ReshapeTransform((6,), (2, 3))", "CatTransform([ExpTransform(), TanhTransform()], -1, [4, 2])",
          "StackTransform([ExpTransform()] * 6, -1)"]  # fmt: skip


@pytest.mark.parametrize("text", SCALAR + VECTOR)
def test_transforms(text):
    x = numpy.random.default_rng(1).uniform(0.2, 0.9, (2, 6))
    t, u = (eval(text, vars(d)) for d in (theirs, ours))
    a, b = torch.tensor(x), engine.tensor(x)
    y, z = t(a), u(b)
    close(y, z)
    close(t.inv(y), u.inv(z), 1e-7)
    if text not in ("SoftmaxTransform()",):
        close(t.log_abs_det_jacobian(a, y), u.log_abs_det_jacobian(b, z), 1e-7)
    assert t.bijective == u.bijective and tuple(t.forward_shape(a.shape)) == tuple(u.forward_shape(b.shape)) == tuple(y.shape)


@pytest.mark.parametrize("name", ["real", "positive", "unit_interval", "simplex", "lower_cholesky", "positive_definite", "corr_cholesky"])
def test_maps_onto_regions(name):
    shape = (3, 3) if name in ("lower_cholesky", "positive_definite") else (6,)
    x = numpy.random.default_rng(2).normal(size=(2, *shape))
    p, q = (d.transform_to(getattr(d.constraints, name)) for d in (theirs, ours))
    y, z = p(torch.tensor(x)), q(engine.tensor(x))
    close(y, z)
    assert getattr(ours.constraints, name).check(z).all()


def test_what_is_refused():
    for E, d in ((torch, theirs), (engine, ours)):
        with pytest.raises(ValueError, match="to satisfy the constraint GreaterThan"):
            d.Normal(E.zeros(2), E.tensor([1.0, -1.0]))
        with pytest.raises(ValueError, match="within the support"):
            d.Bernoulli(E.tensor(0.5)).log_prob(E.tensor(2.0))
        with pytest.raises(ValueError, match="not broadcastable"):
            d.Normal(E.zeros(2), E.ones(2)).log_prob(E.zeros(3))
        with pytest.raises(ValueError, match="not both"):
            d.Categorical()
        with pytest.raises(NotImplementedError):
            d.kl_divergence(d.Normal(0.0, 1.0), d.Categorical(E.ones(3)))
        with pytest.raises(NotImplementedError):
            d.Categorical(E.ones(3)).rsample()
        assert d.Normal(E.zeros(2), E.tensor([1.0, -1.0]), validate_args=False).scale[1] == -1
