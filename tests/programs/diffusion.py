"""A denoising diffusion model on digits: a noise schedule, time embeddings, an exponential average of the weights, sampling."""

import copy
import math

import torch
from sklearn.datasets import load_digits
from torch import nn

STEPS = 20


class Denoiser(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.dim = dim
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.first, self.norm = nn.Conv2d(1, dim, 3, padding=1), nn.GroupNorm(4, dim)
        self.middle, self.last = nn.Conv2d(dim, dim, 3, padding=1, padding_mode="reflect"), nn.Conv2d(dim, 1, 3, padding=1)

    def embedded(self, t):
        half = self.dim // 2
        frequencies = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = t[:, None] * frequencies[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)

    def forward(self, x, t):
        h = nn.functional.silu(self.norm(self.first(x)))
        h = h + self.time(self.embedded(t))[:, :, None, None]
        return self.last(nn.functional.silu(self.middle(h)) + h)


torch.manual_seed(29)
images = torch.tensor(load_digits().images / 8 - 1, dtype=torch.get_default_dtype()).unsqueeze(1)
betas = torch.linspace(1e-3, 0.2, STEPS)
alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
model = Denoiser()
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
losses = []
for step in range(20):
    x = images[torch.randperm(len(images))[:24]]
    t = torch.randint(0, STEPS, (x.size(0),))
    noise = torch.randn_like(x)
    a = alphas_cumprod.gather(0, t).view(-1, 1, 1, 1)
    loss = nn.functional.huber_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(average.parameters(), model.parameters()):
            old.lerp_(new, 0.1)
    losses.append(loss.item())

with torch.no_grad():
    x = torch.randn(4, 1, 8, 8)
    for t in reversed(range(STEPS)):
        predicted = average(x, torch.full((4,), t))
        x = (x - betas[t] / (1 - alphas_cumprod[t]).sqrt() * predicted) / (1 - betas[t]).sqrt()
        if t > 0:
            x += betas[t].sqrt() * torch.randn_like(x)
print(tuple(x.shape))
