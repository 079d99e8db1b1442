"""A small residual network: BasicBlock with batch norm and projection shortcuts, Kaiming init, label smoothing, cosine schedule."""

from collections import OrderedDict

import torch
from torch import nn, optim
from torch.nn import functional as F


def conv3x3(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, blocks, width=8, num_classes=4):
        super().__init__()
        self.inplanes = width
        self.stem = nn.Sequential(OrderedDict(conv=conv3x3(3, width), bn=nn.BatchNorm2d(width), relu=nn.ReLU(inplace=True)))
        self.layer1 = self._make_layer(width, blocks[0])
        self.layer2 = self._make_layer(2 * width, blocks[1], stride=2)
        self.layer3 = self._make_layer(4 * width, blocks[2], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(4 * width, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes:
            downsample = nn.Sequential(nn.Conv2d(self.inplanes, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes))
        layers = [BasicBlock(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes
        layers += [BasicBlock(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


torch.manual_seed(4)
x, y = torch.randn(160, 3, 16, 16), torch.randint(0, 4, (160,))
x[torch.arange(160), y % 3, :4] += 1.5
model = ResNet([1, 1, 1])
optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
losses = []
for step in range(20):
    at = torch.arange(16 * step, 16 * step + 16) % 160
    loss = F.cross_entropy(model(x[at]), y[at], label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
model.eval()
print(model(x[:8]).softmax(dim=-1).max(dim=1).values.mean().item(), model.stem.bn.num_batches_tracked.item())
