"""A neural ordinary differential equation fitted to a spiral: Runge-Kutta steps by hand, gradients through the solver."""

import torch
import torch.nn as nn

torch.manual_seed(22)
true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
t = torch.linspace(0.0, 2.5, 26)


def rk4(f, y, t):
    ys = [y]
    for t0, t1 in zip(t[:-1], t[1:]):
        h = t1 - t0
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        ys.append(y)
    return torch.stack(ys)


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, y):
        return self.net(y**3)


with torch.no_grad():
    true_y = rk4(lambda y: torch.mm(y**3, true_A), torch.tensor([[1.2, 0.0]]), t)
func = ODEFunc()
optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
losses = []
for step in range(20):
    s = torch.randint(0, 16, (6,))
    start = true_y[s]
    target = torch.stack([true_y[s + i] for i in range(6)], dim=0)
    pred = rk4(func, start, t[:6])
    loss = torch.mean(torch.abs(pred - target))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(tuple(pred.shape))
