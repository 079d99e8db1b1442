"""Model-agnostic meta-learning of sine waves: the outer gradient goes through the inner update (second order)."""

import math

import torch
import torch.nn.functional as F


def net(x, params):
    x = F.linear(x, params[0], params[1])
    x = F.linear(torch.relu(x), params[2], params[3])
    return F.linear(torch.tanh(x), params[4], params[5])


torch.manual_seed(21)
params = [
    torch.empty(16, 1).uniform_(-1, 1), torch.zeros(16),
    torch.empty(16, 16).normal_(0, 0.25), torch.zeros(16),
    torch.empty(1, 16).normal_(0, 0.25), torch.zeros(1),
]  # fmt: skip
for p in params:
    p.requires_grad_()
meta_optimizer = torch.optim.Adam(params, lr=1e-3)
losses = []
for step in range(20):
    meta_loss = 0.0
    for task in range(3):
        amplitude, phase = torch.rand(1) * 4 + 1, torch.rand(1) * math.pi
        x = torch.rand(10, 1) * 10 - 5
        y = amplitude * torch.sin(x + phase)
        fast = params
        for inner in range(2):
            loss = F.mse_loss(net(x, fast), y)
            grads = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [p - 0.01 * g for p, g in zip(fast, grads)]
        query = torch.rand(10, 1) * 10 - 5
        meta_loss = meta_loss + F.mse_loss(net(query, fast), amplitude * torch.sin(query + phase))
    meta_optimizer.zero_grad()
    (meta_loss / 3).backward()
    meta_optimizer.step()
    losses.append(meta_loss.item() / 3)
print(f"{params[0].grad.norm():.4f}")
