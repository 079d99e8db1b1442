"""A small VGG made from a configuration list, with batch norm, dropout and the two parameter groups of fine-tuning."""

import torch
from torch import nn

CFG = [8, "M", 16, 16, "M"]


def make_layers(cfg, in_channels=3):
    layers = []
    for v in cfg:
        if v == "M":
            layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
        else:
            layers += [nn.Conv2d(in_channels, v, kernel_size=3, padding=1), nn.BatchNorm2d(v), nn.ReLU(inplace=True)]
            in_channels = v
    return nn.Sequential(*layers)


class VGG(nn.Module):
    def __init__(self, features, num_classes=5):
        super(VGG, self).__init__()
        self.features = features
        self.classifier = nn.Sequential(nn.Linear(16 * 4 * 4, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, num_classes))

    def forward(self, x):
        x = self.features(x)
        x = x.view(x.size(0), -1)
        return self.classifier(x)


torch.manual_seed(6)
model = VGG(make_layers(CFG))
for name, param in model.named_parameters():
    if name.startswith("features.0"):
        param.requires_grad = False
optimizer = torch.optim.SGD([
    {"params": [p for p in model.features.parameters() if p.requires_grad], "lr": 0.01},
    {"params": model.classifier.parameters()},
], lr=0.05, momentum=0.9)  # fmt: skip
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[8, 15], gamma=0.1)
criterion = nn.NLLLoss()
data, target = torch.rand(40, 3, 16, 16), torch.randint(5, (40,))
losses = []
for epoch in range(20):
    permutation = torch.randperm(40)[:20]
    output = nn.LogSoftmax(dim=1)(model(data[permutation]))
    loss = criterion(output, target[permutation])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
print([group["lr"] for group in optimizer.param_groups], model.features[0].weight.grad)
