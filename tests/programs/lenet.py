"""LeNet on digits: convolutions, average pooling, tanh, SGD with momentum, a step schedule."""

import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(3)
digits = load_digits()
images = torch.tensor(digits.images / 8 - 1, dtype=torch.get_default_dtype()).unsqueeze(1)
images = nn.functional.interpolate(images, size=(28, 28), mode="bilinear", align_corners=False)
labels = torch.tensor(digits.target)

net = nn.Sequential(
    nn.Conv2d(1, 6, kernel_size=5, padding=2),
    nn.Tanh(),
    nn.AvgPool2d(2, stride=2),
    nn.Conv2d(6, 16, kernel_size=5),
    nn.Tanh(),
    nn.AvgPool2d(2, stride=2),
    nn.Flatten(),
    nn.Linear(16 * 5 * 5, 120),
    nn.Tanh(),
    nn.Linear(120, 84),
    nn.Tanh(),
    nn.Linear(84, 10),
)


def init_weights(m):
    if isinstance(m, (nn.Linear, nn.Conv2d)):
        nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(m.bias)


net.apply(init_weights)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.7)
criterion = nn.CrossEntropyLoss()
losses = []
for step in range(20):
    batch = slice(32 * step, 32 * step + 32)
    optimizer.zero_grad()
    loss = criterion(net(images[batch]), labels[batch])
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
print(net)
print(scheduler.get_last_lr())
