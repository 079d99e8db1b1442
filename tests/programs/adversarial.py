"""Adversarial examples: the fast gradient sign method and projected gradient steps, and training against them."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits

torch.manual_seed(34)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.get_default_dtype()), torch.tensor(digits.target)
model = nn.Sequential(nn.Linear(64, 32), nn.Mish(), nn.Linear(32, 10))
optimizer = torch.optim.ASGD(model.parameters(), lr=0.5, lambd=1e-4)


def fgsm_attack(image, epsilon, data_grad):
    return torch.clamp(image + epsilon * data_grad.sign(), 0, 1)


def pgd(image, target, epsilon=0.1, alpha=0.04, steps=3):
    delta = torch.zeros_like(image).uniform_(-epsilon, epsilon).requires_grad_()
    for _ in range(steps):
        loss = F.cross_entropy(model((image + delta).clamp(0, 1)), target)
        loss.backward()
        delta.data = (delta + alpha * delta.grad.detach().sign()).clamp(-epsilon, epsilon)
        delta.grad.zero_()
    return (image + delta.detach()).clamp(0, 1)


losses = []
for step in range(20):
    data, target = x[50 * step : 50 * step + 50].clone(), y[50 * step : 50 * step + 50]
    if step % 2:
        data = pgd(data, target)
    else:
        data.requires_grad = True
        F.nll_loss(F.log_softmax(model(data), dim=1), target).backward()
        data = fgsm_attack(data, 0.1, data.grad.data).detach()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
hit = model(pgd(x[:200], y[:200])).argmax(1).ne(y[:200]).to(x.dtype).mean()
print(f"{hit.item():.2f} of the attacks succeed")
