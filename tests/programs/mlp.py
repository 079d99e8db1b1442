"""A multilayer perceptron on handwritten digits: Dataset, DataLoader, Adam, accuracy on held-out data."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(2)
digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.get_default_dtype())
labels = torch.tensor(digits.target)
train, test = random_split(TensorDataset(images, labels), [1500, len(images) - 1500])
loader = DataLoader(train, batch_size=64, shuffle=True)


class MLP(nn.Module):
    def __init__(self, sizes, dropout=0.2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = self.dropout(F.relu(layer(x)))
        return self.layers[-1](x)


model = MLP([64, 48, 32, 10])
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
losses = []
model.train()
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if len(losses) == 20:
        break

model.eval()
correct = 0
with torch.inference_mode():
    for x, y in DataLoader(test, batch_size=100):
        correct += (model(x).argmax(1) == y).sum().item()
print(f"{sum(p.numel() for p in model.parameters())} parameters, {correct} of {len(test)} right")
