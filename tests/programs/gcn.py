"""Graph convolutions on a random community graph: a normalized adjacency matrix, masked nodes, attention over neighbors."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(30)
n, communities = 36, torch.arange(36) // 12
adjacency = torch.bernoulli(torch.where(communities[:, None] == communities[None, :], 0.4, 0.03)).triu(1)
adjacency = adjacency + adjacency.T + torch.eye(n)
degree = adjacency.sum(dim=1)
normalised = torch.diag(degree.rsqrt()) @ adjacency @ torch.diag(degree.rsqrt())


class GraphConvolution(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(cin, cout))
        self.bias = nn.Parameter(torch.empty(cout))
        nn.init.xavier_normal_(self.weight)
        nn.init.constant_(self.bias, 0.01)

    def forward(self, x, adj):
        return torch.matmul(adj, torch.mm(x, self.weight)) + self.bias

    def extra_repr(self):
        return f"{self.weight.shape[0]} -> {self.weight.shape[1]}"


class GraphAttention(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.W, self.a = nn.Linear(cin, cout, bias=False), nn.Linear(2 * cout, 1, bias=False)

    def forward(self, x, adj):
        h = self.W(x)
        count = h.size(0)
        pairs = torch.cat([h.repeat_interleave(count, dim=0), h.repeat(count, 1)], dim=1).view(count, count, -1)
        scores = F.leaky_relu(self.a(pairs).squeeze(-1), negative_slope=0.2)
        return F.softmax(torch.where(adj > 0, scores, torch.full_like(scores, -9e15)), dim=1) @ h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = GraphConvolution(n, 16), GraphAttention(16, 8), GraphConvolution(8, 3)

    def forward(self, x):
        x = F.dropout(F.elu(self.first(x, normalised)), 0.3, training=self.training)
        return F.log_softmax(self.third(F.elu(self.second(x, adjacency)), normalised), dim=1)


model, features = Net(), torch.eye(n)
known = torch.zeros(n, dtype=torch.bool)
known[torch.randperm(n)[:12]] = True
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
losses = []
for epoch in range(20):
    model.train()
    loss = F.nll_loss(model(features)[known], communities[known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval()
print(model.first, (model(features).argmax(1)[~known] == communities[~known]).sum().item())
