"""pyro: variational inference with several guides, a few steps of HMC and NUTS, and enumeration."""

import json
import time
import warnings

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import HMC, MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoLowRankMultivariateNormal, AutoMultivariateNormal
from pyro.nn import PyroModule, PyroSample
from pyro.optim import Adam, ClippedAdam

warnings.filterwarnings("ignore")
pyro.set_rng_seed(0)
x = torch.randn(40, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(40)


def model(x, y=None):
    w = pyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    sigma = pyro.sample("sigma", dist.HalfCauchy(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("obs", dist.Normal(x @ w, sigma), obs=y)


started = time.perf_counter()
for guide in (AutoDelta, AutoDiagonalNormal, AutoMultivariateNormal, AutoLowRankMultivariateNormal):
    pyro.clear_param_store()
    pyro.set_rng_seed(1)
    made = guide(model)
    svi = SVI(model, made, ClippedAdam({"lr": 0.02}) if guide is AutoDelta else Adam({"lr": 0.02}), Trace_ELBO(num_particles=2))
    losses = [svi.step(x, y) for _ in range(5)]
    drawn = Predictive(model, guide=made, num_samples=4)(x[:3])
    print(json.dumps({"guide": guide.__name__, "losses": losses, "median": made.median()["w"].tolist(), "obs": drawn["obs"].mean().item()}))


class Bayes(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[torch.nn.Linear](3, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))

    def forward(self, x, y=None):
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", len(x)):
            return pyro.sample("obs", dist.Normal(mean, 0.5), obs=y)


pyro.clear_param_store()
pyro.set_rng_seed(2)
net = Bayes()
svi = SVI(net, AutoDiagonalNormal(net), Adam({"lr": 0.05}), Trace_ELBO())
print(json.dumps({"bayes": [svi.step(x, y) for _ in range(4)]}))


@config_enumerate
def mixture(data):
    weights = pyro.param("weights", torch.ones(2) / 2, constraint=dist.constraints.simplex)
    centres = pyro.param("centres", torch.tensor([-1.0, 1.0]))
    with pyro.plate("points", len(data)):
        z = pyro.sample("z", dist.Categorical(weights))
        pyro.sample("x", dist.Normal(centres[z], 0.7), obs=data)


pyro.clear_param_store()
data = torch.cat([torch.randn(10) - 2, torch.randn(10) + 2])
svi = SVI(mixture, lambda data: None, Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1))
print(
    json.dumps(
        {
            "mixture": [svi.step(data) for _ in range(4)],
            "centres": pyro.param("centres").tolist(),
            "weights": pyro.param("weights").tolist(),
        }
    )
)
for kernel in (HMC(model, step_size=0.05, num_steps=3), NUTS(model, max_tree_depth=3)):
    pyro.set_rng_seed(3)
    chain = MCMC(kernel, num_samples=3, warmup_steps=3, disable_progbar=True)
    chain.run(x, y)
    print(json.dumps({type(kernel).__name__: chain.get_samples()["w"].tolist()}))
print(json.dumps({"seconds": time.perf_counter() - started}))
