"""Linear regression with tensors alone: the gradient by autograd, the update by hand."""

import torch

torch.manual_seed(0)
x = torch.linspace(-1, 1, 50).unsqueeze(1)
y = 3 * x + 2 + 0.1 * torch.randn(50, 1)

w = torch.randn(1, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
losses = []
for step in range(20):
    prediction = x @ w + b
    loss = ((prediction - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.3 * w.grad
        b -= 0.3 * b.grad
        w.grad.zero_()
        b.grad.zero_()
    losses.append(loss.item())
print(f"w = {w.item():.3f}, b = {b.item():.3f}")
