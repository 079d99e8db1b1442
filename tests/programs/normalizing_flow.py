"""RealNVP for two moons: affine couplings with masks in buffers, the change of variables, exact inverses."""

import torch
from sklearn.datasets import make_moons
from torch import nn


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.scale = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
        self.shift = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2))

    def forward(self, x):
        kept = x * self.mask
        s, t = self.scale(kept) * (1 - self.mask), self.shift(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (x * s.exp() + t), s.sum(dim=1)

    def inverse(self, y):
        kept = y * self.mask
        s, t = self.scale(kept) * (1 - self.mask), self.shift(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (y - t) * (-s).exp()


class Flow(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.layers = nn.ModuleList([Coupling(torch.tensor([1.0, 0.0]) if i % 2 else torch.tensor([0.0, 1.0])) for i in range(n)])
        self.prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))

    def log_prob(self, x):
        total = torch.zeros(x.shape[0])
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return self.prior.log_prob(x) + total

    @torch.no_grad()
    def sample(self, n):
        z = self.prior.sample((n,))
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


torch.manual_seed(28)
points = torch.tensor(make_moons(400, noise=0.05, random_state=0)[0], dtype=torch.get_default_dtype())
flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
losses = []
for step in range(20):
    loss = -flow.log_prob(points[torch.randint(400, (100,))]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
back = points
for layer in flow.layers:
    back, _ = layer(back)
for layer in reversed(flow.layers):
    back = layer.inverse(back)
print(torch.allclose(back, points, atol=1e-4), tuple(flow.sample(5).shape))
