"""Neural differential equations of torchdiffeq: every solver, the adjoint, and an event."""

import json
import time

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3)


start, times = torch.tensor([[2.0, 0.0]]), torch.linspace(0, 1, 6)
target = torch.randn(6, 1, 2)
started = time.perf_counter()
for method in (
    "dopri5",
    "dopri8",
    "bosh3",
    "fehlberg2",
    "adaptive_heun",
    "euler",
    "midpoint",
    "heun2",
    "heun3",
    "rk4",
    "explicit_adams",
    "implicit_adams",
):
    torch.manual_seed(1)
    field = Field()
    loss = (odeint(field, start, times, method=method) - target).abs().mean()
    loss.backward()
    print(json.dumps({"method": method, "loss": loss.item(), "gradient": sum(p.grad.norm().item() for p in field.parameters())}))
field = Field()
optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-2)
for _ in range(3):
    optimizer.zero_grad()
    loss = (odeint_adjoint(field, start, times, rtol=1e-5, atol=1e-6) - target).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(json.dumps({"adjoint": loss.item()}))
height = torch.tensor([10.0, 0.0], requires_grad=True)
fall = lambda t, y: torch.stack([y[1], torch.full_like(y[1], -9.8)])  # noqa: E731
when, path = odeint_event(fall, height, torch.tensor(0.0), event_fn=lambda t, y: y[0], odeint_interface=odeint)
when.backward()
print(json.dumps({"when": when.item(), "gradient": height.grad.tolist(), "seconds": time.perf_counter() - started}))
