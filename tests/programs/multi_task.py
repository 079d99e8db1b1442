"""Several tasks with learnt weights: a shared trunk, ParameterDict, weight_norm, hooks on gradients, gradient accumulation."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(38)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(weight_norm(nn.Linear(10, 24)), nn.CELU(), nn.Dropout1d(0.1), nn.Linear(24, 24), nn.ReLU6())
        self.heads = nn.ModuleDict({"price": nn.Linear(24, 1), "kind": nn.Linear(24, 4), "rank": nn.Bilinear(24, 10, 1)})
        self.log_vars = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in self.heads})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h, x) if name == "rank" else head(h) for name, head in self.heads.items()}


model = MultiTask()
seen = []
model.heads["kind"].weight.register_hook(lambda g: seen.append(g.norm().item()) or g * 0.5)
x = torch.randn(128, 10)
price, kind, rank = x[:, :3].sum(1, keepdim=True), (x[:, 3] > 0) * 2 + (x[:, 4] > 0).long(), x[:, 5:6] * x[:, 6:7]
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
losses = []
for step in range(20):
    optimizer.zero_grad()
    for part in torch.arange(128).chunk(2):
        out = model(x[part])
        each = {
            "price": F.smooth_l1_loss(out["price"], price[part], beta=0.5),
            "kind": F.multi_margin_loss(out["kind"], kind[part]),
            "rank": F.gaussian_nll_loss(out["rank"], rank[part], torch.ones(len(part), 1)),
        }
        loss = sum(torch.exp(-model.log_vars[name]) * value + model.log_vars[name] for name, value in each.items()) / 2
        loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(len(seen), sorted(model.state_dict())[:3])
