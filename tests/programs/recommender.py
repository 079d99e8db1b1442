"""Matrix factorization with biases for ratings: embeddings, a bounded output, metrics per user with scatter, early stopping."""

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

torch.manual_seed(33)
users, items = 30, 40
taste, kind = torch.randn(users, 3), torch.randn(items, 3)
u, i = torch.randint(users, (600,)), torch.randint(items, (600,))
ratings = (3 + (taste[u] * kind[i]).sum(1) + 0.2 * torch.randn(600)).clamp(1, 5)


class Factors(nn.Module):
    def __init__(self, dim=5):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        for e in (self.user, self.item, self.user_bias, self.item_bias):
            nn.init.normal_(e.weight, 0, 0.05)

    def forward(self, u, i):
        score = (self.user(u) * self.item(i)).sum(1) + self.user_bias(u).squeeze(1) + self.item_bias(i).squeeze(1)
        return torch.sigmoid(score) * 4.5 + 0.75


dataset = TensorDataset(u, i, ratings)
loader = DataLoader(dataset, batch_sampler=BatchSampler(RandomSampler(dataset), batch_size=60, drop_last=False))
model = Factors()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5, dampening=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
losses = []
for epoch in range(2):
    total = 0.0
    for user, item, rating in loader:
        loss = nn.functional.mse_loss(model(user, item), rating)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        total += loss.item()
    scheduler.step(total)
with torch.no_grad():
    error = (model(u, i) - ratings).abs()
    per_user = torch.zeros(users).scatter_add_(0, u, error) / torch.bincount(u, minlength=users).clamp(min=1)
print(f"worst user {per_user.argmax().item()} {per_user.max().item():.3f}")
