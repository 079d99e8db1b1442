"""A sparse mixture of experts: top-k routing, scattered gates, a load-balancing loss, ModuleList and einsum."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Experts(nn.Module):
    def __init__(self, dim=8, hidden=16, count=4, k=2):
        super().__init__()
        self.k, self.count = k, count
        self.gate = nn.Linear(dim, count, bias=False)
        self.w1 = nn.Parameter(torch.randn(count, dim, hidden) * dim**-0.5)
        self.w2 = nn.Parameter(torch.randn(count, hidden, dim) * hidden**-0.5)

    def forward(self, x):
        logits = self.gate(x)
        if self.training:
            logits = logits + 0.1 * torch.randn_like(logits)
        top, where = logits.topk(self.k, dim=-1)
        gates = torch.zeros_like(logits).scatter(1, where, F.softmax(top, dim=-1))
        hidden = F.silu(torch.einsum("nd,edh->neh", x, self.w1))
        out = torch.einsum("neh,ehd->ned", hidden, self.w2)
        importance = gates.sum(0)
        load = (gates > 0).sum(0).to(x.dtype)
        balance = (importance.var(unbiased=False) / importance.mean() ** 2) + load.var() / load.mean() ** 2
        return torch.einsum("ne,ned->nd", gates, out), balance


torch.manual_seed(31)
layer, head = Experts(), nn.Linear(8, 1)
x = torch.randn(256, 8)
y = torch.where(x[:, :1] > 0, x[:, 1:2] * x[:, 2:3], x[:, 3:4].abs())
optimizer = torch.optim.RAdam([*layer.parameters(), *head.parameters()], lr=0.01)
losses = []
for step in range(20):
    at = torch.arange(32 * step, 32 * step + 32) % 256
    out, balance = layer(x[at])
    loss = F.l1_loss(head(x[at] + out), y[at]) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(layer.w1.grad.abs().sum(dim=(1, 2)).gt(0).tolist())
