"""Every optimizer of pytorch_optimizer takes three steps on a small network."""

# rtol: 2e-3, because some of them orthogonalize by iterations in bfloat16

import json
import time
import warnings

import torch
from pytorch_optimizer import get_supported_optimizers, load_optimizer
from torch import nn

warnings.filterwarnings("ignore")
OF_A_MODEL = {"adalomo", "adammini", "lomo"}
OF_GROUPS = {"adago", "adamuon", "muon", "muonclip", "normuon"}
TAKE_THEIR_STEP_IN_BACKWARD = {"adalomo", "lomo"}
OPTIONS = {"ranger21": {"num_iterations": 10}}
MULTIPLY_ROUNDING = {"kate", "lbfgs"}
LEFT_OUT = {"bsam", "demo", "distributedmuon"}  # one reads a state that it never writes, the others gather from several processes


def losses(name):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64 if name in MULTIPLY_ROUNDING else torch.float32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 8, bias=False), nn.Tanh(), nn.Linear(8, 4, bias=False))
    if name != "spectralsphere" and name not in OF_A_MODEL:  # those are for matrices
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 4))
    x, y = torch.randn(16, 1, 6, 6), torch.arange(16) % 3
    params = list(model.parameters())
    if name in OF_GROUPS:
        params = [{"params": [p for p in params if (p.ndim == 2) is matrices], "use_muon": matrices} for matrices in (True, False)]
    optimizer = load_optimizer(name)(model if name in OF_A_MODEL else params, lr=1e-2, **OPTIONS.get(name, {}))
    found = []

    def closure():
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            if hasattr(optimizer, "fused_backward"):
                optimizer.fused_backward(loss, lr=1e-2)
            else:
                loss.backward(create_graph=name in ("adahessian", "sophiah"))
        found.append(loss.item())
        return loss

    for _ in range(3):
        if name in ("lbfgs", "sam", "alig", "sgdsai"):
            optimizer.step(closure)
        else:
            closure()
            if name not in TAKE_THEIR_STEP_IN_BACKWARD:
                optimizer.step()
    closure()
    return found


started = time.perf_counter()
for name in sorted({str(n) for n in get_supported_optimizers()} - LEFT_OUT):
    print(json.dumps({"optimizer": name, "losses": losses(name)}))
print(json.dumps({"seconds": time.perf_counter() - started}))
