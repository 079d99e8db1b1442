"""Logistic regression on the breast cancer data: standardized features, BCEWithLogitsLoss, SGD with weight decay."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

torch.manual_seed(1)
data = load_breast_cancer()
X = torch.as_tensor(data.data, dtype=torch.get_default_dtype())
y = torch.from_numpy(data.target).to(X.dtype).view(-1, 1)
X = (X - X.mean(dim=0)) / X.std(dim=0)

model = nn.Linear(X.shape[1], 1)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=1e-3)
losses = []
for epoch in range(20):
    optimizer.zero_grad()
    loss = criterion(model(X), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

with torch.no_grad():
    accuracy = ((model(X) > 0) == (y > 0.5)).sum().item() / len(y)
print(f"accuracy {accuracy:.3f}")
