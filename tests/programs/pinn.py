"""A physics-informed network: u'' = -pi² sin(pi x) with zero boundaries, derivatives of the network by autograd, then L-BFGS."""

import math

import torch
from torch import nn

torch.manual_seed(27)
model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
x = torch.linspace(0, 1, 41).reshape(-1, 1).requires_grad_(True)
ends = torch.tensor([[0.0], [1.0]])


def objective():
    u = model(x)
    (u_x,) = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x, x, grad_outputs=torch.ones_like(u_x), create_graph=True)
    residual = u_xx + math.pi**2 * torch.sin(math.pi * x)
    return residual.square().mean() + 100 * model(ends).square().mean()


adam = torch.optim.Adam(model.parameters(), lr=5e-3)
losses = []
for step in range(18):
    adam.zero_grad()
    loss = objective()
    loss.backward()
    adam.step()
    losses.append(loss.item())

lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=2, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    loss = objective()
    loss.backward()
    return loss


for step in range(2):
    losses.append(lbfgs.step(closure).item())
with torch.no_grad():
    print((model(x) - torch.sin(math.pi * x)).abs().max().item())
