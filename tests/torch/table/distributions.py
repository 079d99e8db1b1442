"""torch.distributions: densities, moments, samples from PyTorch's stream, divergences, transforms."""

from __future__ import annotations

from .case import case, fails
from .inputs import f

# fmt: off
D = "D = torch.distributions\n"
POSITIVE, REAL, UNIT = f(3, low=0.4, high=2), f(3), f(3, low=0.2, high=0.8)
# a distribution of parameters x and y, where x has a range, and a value it may take
CONTINUOUS = {
    "D.Normal(r, p)": "r + 0.3", "D.LogNormal(r, p)": "p + 0.1", "D.Uniform(r, r + p)": "r + p / 2", "D.Exponential(p)": "p + 0.2", "D.Laplace(r, p)": "r - 0.7", "D.Cauchy(r, p)": "r + 1", "D.HalfNormal(p)": "p * 2", "D.HalfCauchy(p)": "p + 0.5",
    "D.Gamma(p, p + 1)": "p + 0.3", "D.InverseGamma(p + 3, p)": "p + 0.3", "D.Beta(p, p + 1)": "u", "D.Chi2(p + 1)": "p", "D.StudentT(p + 3, r, p)": "r + 0.1", "D.FisherSnedecor(p + 1, p + 5)": "p", "D.Gumbel(r, p)": "r + 0.4", "D.Pareto(p, p + 2)": "p + 1", "D.Weibull(p, p + 1)": "p + 0.2", "D.Kumaraswamy(p, p + 1)": "u", "D.ContinuousBernoulli(u / 2)": "u", "D.VonMises(r, p)": "r / 2",
    "D.LogisticNormal(r[:2], p[:2])": "torch.softmax(r, 0)",
    "D.RelaxedBernoulli(p[0], u)": "u", "D.RelaxedOneHotCategorical(p[0], logits=r)": "torch.softmax(r + 1, 0)", "D.Dirichlet(p)": "torch.softmax(r, 0)", "D.MultivariateNormal(r, torch.diag(p))": "r + 1", "D.MultivariateNormal(r, scale_tril=torch.diag(p) + 0.1 * torch.ones(3, 3, dtype=r.dtype).tril(-1))": "r + p", "D.LowRankMultivariateNormal(r, p[:, None], p)": "r - p",
    "D.Independent(D.Normal(r, p), 1)": "r + p", "D.MixtureSameFamily(D.Categorical(logits=r), D.Normal(r, p))": "r + 0.5", "D.TransformedDistribution(D.Normal(r, p), [D.transforms.ExpTransform()])": "p", "D.TransformedDistribution(D.Normal(r, p), [D.transforms.AffineTransform(1.0, 2.0), D.transforms.SigmoidTransform()])": "u",
}
DISCRETE = {
    "D.Bernoulli(u)": "(u > 0.5).to(u.dtype)", "D.Bernoulli(logits=r)": "(u > 0.5).to(u.dtype)", "D.Binomial(5, u)": "torch.tensor([0., 2., 5.], dtype=u.dtype)", "D.Geometric(u)": "torch.tensor([0., 1., 4.], dtype=u.dtype)", "D.Poisson(p)": "torch.tensor([0., 2., 7.], dtype=u.dtype)", "D.NegativeBinomial(4, u)": "torch.tensor([0., 3., 5.], dtype=u.dtype)",
    "D.Categorical(p)": "torch.tensor([0, 2])", "D.Categorical(logits=r)": "torch.tensor(1)", "D.OneHotCategorical(p)": "torch.eye(3, dtype=p.dtype)", "D.Multinomial(4, p)": "torch.tensor([1., 0., 3.], dtype=p.dtype)",
}
NO_CDF = ("Gamma", "Chi2", "Beta", "FisherSnedecor", "Dirichlet", "VonMises", "LogisticNormal", "Relaxed", "Multivariate", "Independent", "StudentT", "InverseGamma", "Kumaraswamy")
NO_MOMENTS = ("Relaxed", "Transformed", "LogisticNormal")
NO_ENTROPY = (*NO_MOMENTS, "VonMises", "Mixture", "FisherSnedecor", "Binomial", "Poisson", "Multinomial", "ContinuousBernoulli")
for made, value in {**CONTINUOUS, **DISCRETE}.items():
    wanted = [f"d.log_prob({value})", "d.batch_shape, d.event_shape, d.has_rsample, d.support.event_dim"]
    if not any(name in made for name in NO_MOMENTS):
        wanted.append("d.mean, d.variance" if "Cauchy" not in made else "d.mode")
    if not any(name in made for name in NO_ENTROPY):
        wanted.append("d.entropy()")
    if made in CONTINUOUS and not any(name in made for name in NO_CDF):
        wanted.append(f"d.cdf({value})")
    words = {"r": REAL, "p": POSITIVE, "u": UNIT}
    case("", [D + f"d = {made}\n{text}" for text in wanted], **words)
    case("", [D + f"d = {made}\nd.sample((2,)).shape, d.expand((4, *d.batch_shape)).batch_shape, type(d).__name__"], grad=False, **words)

# samples are PyTorch's, number for number, where they are made of its first functions; and they have gradients
for made in ("D.Normal(r, p)", "D.Uniform(r, r + p)", "D.Exponential(p)", "D.Laplace(r, p)", "D.LogNormal(r, p)", "D.HalfNormal(p)", "D.Gumbel(r, p)", "D.Cauchy(r, p)", "D.Weibull(p, p + 1)", "D.Independent(D.Normal(r, p), 1)", "D.MultivariateNormal(r, torch.diag(p))"):
    case("", [D + f"torch.manual_seed(5)\n{made}.rsample()", D + f"torch.manual_seed(5)\n{made}.sample((2,))"], r=REAL, p=POSITIVE)
for made in ("D.Bernoulli(u)", "D.Categorical(p)", "D.Categorical(logits=r)", "D.OneHotCategorical(p)", "D.Geometric(u)"):
    case("", D + f"torch.manual_seed(5)\n{made}.sample((4,))", r=REAL, p=POSITIVE, u=UNIT, grad=False)

# divergences
PAIRS = {"D.Normal(r, p)": "D.Normal(r + 1, p * 2)", "D.Bernoulli(u)": "D.Bernoulli(u / 2)", "D.Categorical(p)": "D.Categorical(logits=r)", "D.Exponential(p)": "D.Exponential(p * 3)", "D.Gamma(p, p)": "D.Gamma(p + 1, p * 2)", "D.Beta(p, p)": "D.Beta(p + 1, p * 2)", "D.Dirichlet(p)": "D.Dirichlet(p + 1)", "D.Laplace(r, p)": "D.Laplace(r + 1, p * 2)", "D.Uniform(r, r + p)": "D.Uniform(r - 1, r + p + 1)", "D.Poisson(p)": "D.Poisson(p * 2)", "D.Geometric(u)": "D.Geometric(u / 2)", "D.Gumbel(r, p)": "D.Gumbel(r + 1, p * 2)", "D.Pareto(p, p)": "D.Pareto(p / 2, p)", "D.LogNormal(r, p)": "D.LogNormal(r + 1, p)", "D.HalfNormal(p)": "D.HalfNormal(p * 2)", "D.MultivariateNormal(r, torch.diag(p))": "D.MultivariateNormal(r + 1, torch.diag(p * 2))", "D.Independent(D.Normal(r, p), 1)": "D.Independent(D.Normal(r + 1, p), 1)", "D.Binomial(5, u)": "D.Binomial(5, u / 2)", "D.OneHotCategorical(p)": "D.OneHotCategorical(logits=r)"}
case("", [D + f"D.kl_divergence({one}, {other})" for one, other in PAIRS.items()], r=REAL, p=POSITIVE, u=UNIT)
case("", [D + text for text in ("D.kl_divergence(D.Normal(r, p), D.Laplace(r, p))", "D.kl_divergence(D.Exponential(p), D.Normal(r, p))", "D.kl_divergence(D.Uniform(r, r + 1), D.Normal(r, p))", "D.kl_divergence(D.Gamma(p, p), D.Exponential(p))", "D.kl_divergence(D.Beta(p, p), D.Uniform(r * 0, r * 0 + 1))", "D.kl_divergence(D.Bernoulli(u), D.Poisson(p))")], r=REAL, p=POSITIVE, u=UNIT)
fails("", [D + text for text in ("D.Normal(r, -p)", "D.Normal(r, p).log_prob(torch.tensor([float('nan')] * 3))", "D.Bernoulli(u * 9)", "D.Exponential(p).log_prob(-p)", "D.kl_divergence(D.Normal(r, p), D.Bernoulli(u))", "D.Bernoulli(u).rsample()", "D.Categorical()", "D.Bernoulli(u, logits=r)", "D.Poisson(p).entropy()", "D.MultivariateNormal(r)", "D.Dirichlet(p[0])", "D.Uniform(r + p, r)", "D.Normal(r, p[:2])", "D.Cauchy(r, p).log_prob('a')")], r=REAL, p=POSITIVE, u=UNIT)
case("", [D + text for text in ("repr(D.Normal(0.0, 1.0))", "repr(D.Normal(torch.zeros(2), torch.ones(2)))", "repr(D.Categorical(torch.ones(3)))", "repr(D.Independent(D.Normal(torch.zeros(2), 1.0), 1))", "D.Normal(0, 1).loc.dtype, D.Normal(0, 1).sample().shape", "D.Categorical(torch.ones(2, 3)).enumerate_support()", "D.Bernoulli(torch.ones(2) / 2).enumerate_support(expand=False)", "D.Categorical(torch.tensor([1., 3.])).probs, D.Categorical(torch.tensor([1., 3.])).logits", "D.Normal(torch.zeros(2), 1.0).icdf(torch.tensor(0.975))", "D.Normal(0.0, 2.0).perplexity()", "D.Normal(0., 1.).stddev", "isinstance(D.Normal(0., 1.), D.ExponentialFamily), issubclass(D.Chi2, D.Gamma)")])
TRANSFORMS = {"D.transforms.ExpTransform()": "x", "D.transforms.SigmoidTransform()": "x", "D.transforms.TanhTransform()": "x", "D.transforms.AffineTransform(1.0, 2.0)": "x", "D.transforms.PowerTransform(torch.tensor(2.0, dtype=x.dtype))": "x.abs()", "D.transforms.SoftplusTransform()": "x", "D.transforms.StickBreakingTransform()": "x", "D.transforms.ComposeTransform([D.transforms.ExpTransform(), D.transforms.AffineTransform(0.0, 3.0)])": "x", "D.transforms.CorrCholeskyTransform()": "x"}
case("", [D + f"t = {made}\ny = t({value})\ny, t.inv(y), t.log_abs_det_jacobian({value}, y)" for made, value in TRANSFORMS.items()], x=f(3))
case("", [D + "D.constraints.positive.check(x), D.constraints.simplex.check(x.softmax(0)), D.constraints.unit_interval.check(x), D.constraints.interval(-1.0, 1.0).check(x), D.constraints.greater_than(0.5).check(x)", D + "D.transform_to(D.constraints.positive)(x), D.biject_to(D.constraints.unit_interval)(x), D.transform_to(D.constraints.simplex)(x)"], x=f(3))
case("", D + "x = v.clone()\nd = D.Normal(x, 1.0)\na = d.sample()\nloss = -d.log_prob(a) * 2\nloss.shape, a.requires_grad", v=f(3))
