"""A Siamese network on pairs of digits: shared weights, contrastive loss by hand, then a triplet loss and cosine similarities."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, images, labels, n=160):
        self.images, self.labels, self.n = images, labels, n
        self.of_class = [torch.nonzero(labels == c, as_tuple=True)[0] for c in range(10)]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        same = i % 2 == 0
        label = self.labels[i].item()
        other = label if same else (label + 1 + i % 9) % 10
        members = self.of_class[other]
        negatives = self.of_class[(label + 5) % 10]
        return self.images[i], self.images[members[i % len(members)]], self.images[negatives[i % len(negatives)]], same


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.PReLU(), nn.Linear(32, 8))

    def forward(self, *images):
        return tuple(F.normalize(self.net(x), dim=1) for x in images)


torch.manual_seed(24)
digits = load_digits()
dataset = Pairs(torch.tensor(digits.images / 16, dtype=torch.get_default_dtype()), torch.tensor(digits.target))
loader = DataLoader(dataset, batch_size=16, shuffle=True)
model, triplet = Embedder(), nn.TripletMarginLoss(margin=0.5)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
losses = []
for epoch in range(2):
    for first, second, negative, same in loader:
        a, b, n = model(first, second, negative)
        distance = F.pairwise_distance(a, b)
        same = same.to(a.dtype)
        contrastive = (same * distance.pow(2) + (1 - same) * F.relu(1.0 - distance).pow(2)).mean()
        loss = contrastive + triplet(a[same == 1], b[same == 1], n[same == 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
print(F.cosine_similarity(a, b).mean().item())
