"""Flows of zuko, conditioned on a context: three steps of maximum likelihood, samples, and distributions of its own."""

# rtol: 1e-3, because inverses of flows are found by bisection, and an ODE solver chooses its steps

import json

import torch
import zuko

flows = zuko.flows
made = {
    "MAF": lambda: flows.MAF(4, 2, transforms=2, hidden_features=(16, 16)),
    "NSF": lambda: flows.NSF(4, 2, transforms=2, hidden_features=(16,)),
    "NICE": lambda: flows.NICE(4, 2, hidden_features=(16,)),
    "RealNVP": lambda: flows.RealNVP(4, 2, hidden_features=(16,)),
    "GF": lambda: flows.GF(4, 2, hidden_features=(16,)),
    "NAF": lambda: flows.NAF(4, 2, transforms=1, signal=4, network={"hidden_features": (16,)}, hidden_features=(16,)),
    "BPF": lambda: flows.BPF(4, 2, degree=4, hidden_features=(16,)),
    "SOSPF": lambda: flows.SOSPF(4, 2, hidden_features=(16,)),
    "GMM": lambda: flows.GMM(4, 2, components=3, hidden_features=(16,)),
    "CNF": lambda: flows.CNF(4, 2, hidden_features=(16,)),
}
for name, make in made.items():
    torch.manual_seed(0)
    flow = make()
    optimizer = torch.optim.SGD(flow.parameters(), lr=0.01)
    x, context = torch.randn(32, 4).clamp(-2.9, 2.9), torch.randn(32, 2)
    losses, norms = [], []
    for _ in range(3):
        optimizer.zero_grad()
        loss = -flow(context).log_prob(x).mean()
        loss.backward()
        norms.append(sum(p.grad.norm().item() for p in flow.parameters()))
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        sample = flow(context).sample((2,))
    print(json.dumps({"flow": name, "losses": losses, "gradients": norms, "mean": sample.mean().item(), "spread": sample.std().item()}))

torch.manual_seed(0)
shape = torch.tensor([1.5, 3.0], requires_grad=True)
drawn = zuko.distributions.GeneralizedNormal(shape).rsample((3,))
drawn.square().sum().backward()
print(json.dumps({"generalized normal": drawn.flatten().tolist(), "gradient": shape.grad.tolist()}))
mixture = zuko.distributions.Mixture(torch.distributions.Normal(torch.zeros(2), torch.tensor([1.0, 2.0])), torch.tensor([0.1, 0.5]))
print(json.dumps({"mixture": mixture.sample((5,)).tolist(), "density": mixture.log_prob(torch.randn(3)).tolist()}))
