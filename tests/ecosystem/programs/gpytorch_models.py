"""gpytorch: an exact process, its posterior and saved state, a variational one, and conjugate gradients."""

# rtol: 1e-3, because near-singular matrices are factored in float32

import json
import time
import warnings

import gpytorch
import torch

warnings.filterwarnings("ignore")
torch.manual_seed(0)
x = torch.linspace(0, 1, 30)
y = torch.sin(6 * x) + 0.1 * torch.randn(30)
kernels = gpytorch.kernels


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernels.ScaleKernel(kernels.RBFKernel() + kernels.MaternKernel(1.5) * kernels.PeriodicKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exact():
    return Exact(x, y, gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-3)))


started = time.perf_counter()
model = exact()
likelihood = model.likelihood
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for _ in range(10):
    optimizer.zero_grad()
    loss = -mll(model(x), y)
    loss.backward()
    optimizer.step()
    print(json.dumps({"loss": loss.item()}))
model.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    p = likelihood(model(torch.linspace(0, 1, 7)))
    print(json.dumps({"mean": p.mean.tolist(), "variance": p.variance.tolist(), "low": p.confidence_region()[0].tolist()}))
print(json.dumps({"loaded": str(exact().load_state_dict(model.state_dict()))}))


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, z):
        q = gpytorch.variational.CholeskyVariationalDistribution(z.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(self, z, q, learn_inducing_locations=True))
        self.mean_module, self.covar_module = gpytorch.means.LinearMean(1), kernels.ScaleKernel(kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


process, bernoulli = Variational(x[::3, None]), gpytorch.likelihoods.BernoulliLikelihood()
elbo = gpytorch.mlls.VariationalELBO(bernoulli, process, 30)
optimizer = torch.optim.Adam(process.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    loss = -elbo(process(x[:, None]), (y > 0).float())
    loss.backward()
    optimizer.step()
    print(json.dumps({"elbo": loss.item()}))
model.train()
with gpytorch.settings.max_cholesky_size(1), gpytorch.settings.cg_tolerance(1e-4), gpytorch.settings.num_trace_samples(10):
    torch.manual_seed(1)
    print(json.dumps({"gradients": (-mll(model(x), y)).item(), "seconds": time.perf_counter() - started}))
