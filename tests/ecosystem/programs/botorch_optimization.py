"""botorch: surrogates are fitted and acquisition functions maximized over a square."""

# rtol: 1e-2, because L-BFGS-B stops where the surface is flat

import json
import time
import warnings

import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import MixedSingleTaskGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Branin
from botorch.utils.multi_objective.hypervolume import Hypervolume
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.filterwarnings("ignore")
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.rand(12, 2)
y = torch.sin(5 * x[:, :1]) + x[:, 1:] ** 2
square = torch.tensor([[0.0, 0.0], [1.0, 1.0]])


def surrogate():
    return SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))


def told(name, acquisition, q):
    candidates, value = optimize_acqf(acquisition, bounds=square, q=q, num_restarts=2, raw_samples=8)
    print(json.dumps({name: candidates.flatten().tolist(), "value": value.item()}))


started = time.perf_counter()
model = surrogate()
mll = ExactMarginalLogLikelihood(model.likelihood, model)
fit_gpytorch_mll(mll)
model.train()
print(json.dumps({"mll": mll(model(*model.train_inputs), model.train_targets).item()}))
model.eval()
print(json.dumps({"mean": model.posterior(torch.tensor([[0.3, 0.4]])).mean.item()}))
told("improvement", LogExpectedImprovement(model, y.max()), 1)
told("bound", UpperConfidenceBound(model, 0.2), 1)
sampler = SobolQMCNormalSampler(torch.Size([32]), seed=1)
told("two", qLogExpectedImprovement(model, y.max(), sampler), 2)
print(json.dumps({"noisy": qLogNoisyExpectedImprovement(model, x, sampler)(x[:2, None] * 0.5).tolist()}))
print(json.dumps({"gradient": qKnowledgeGradient(model, num_fantasies=4)(torch.rand(1, 5, 2)).tolist()}))
print(json.dumps({"loaded": str(surrogate().load_state_dict(model.state_dict()))}))
print(json.dumps({"more": model.condition_on_observations(torch.rand(1, 2), torch.zeros(1, 1)).posterior(x[:1]).mean.item()}))
mixed = MixedSingleTaskGP(torch.cat([x, torch.arange(12.0)[:, None] % 3], 1), y, cat_dims=[2])
fit_gpytorch_mll(ExactMarginalLogLikelihood(mixed.likelihood, mixed))
print(json.dumps({"mixed": mixed.posterior(torch.tensor([[0.2, 0.3, 1.0]])).mean.item()}))
volume = Hypervolume(torch.zeros(2)).compute(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
print(json.dumps({"branin": Branin()(torch.rand(2, 2)).tolist(), "volume": volume, "seconds": time.perf_counter() - started}))
