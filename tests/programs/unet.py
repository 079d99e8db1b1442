"""A U-Net that segments discs: skip connections by concatenation, transposed convolutions, Dice plus binary cross-entropy."""

import torch
import torch.nn as nn


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding="same"),
            nn.GroupNorm(2, cout),
            nn.LeakyReLU(0.1),
            nn.Conv2d(cout, cout, 3, padding="same"),
            nn.GroupNorm(2, cout),
            nn.LeakyReLU(0.1),
        )

    def forward(self, x):
        return self.net(x)


class UNet(nn.Module):
    def __init__(self, features=(4, 8, 16)):
        super().__init__()
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        channels = 1
        for f in features:
            self.downs.append(DoubleConv(channels, f))
            channels = f
        self.bottleneck = DoubleConv(features[-1], 2 * features[-1])
        for f in reversed(features):
            self.ups.append(nn.ConvTranspose2d(2 * f, f, kernel_size=2, stride=2))
            self.ups.append(DoubleConv(2 * f, f))
        self.final = nn.Conv2d(features[0], 1, kernel_size=1)

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottleneck(x)
        skips = skips[::-1]
        for i in range(0, len(self.ups), 2):
            x = self.ups[i](x)
            x = self.ups[i + 1](torch.cat((skips[i // 2], x), dim=1))
        return self.final(x)


def discs(n, size=16):
    """Noisy pictures of one disc each, and their masks."""
    at = torch.arange(size, dtype=torch.get_default_dtype())
    rows, columns = torch.meshgrid(at, at, indexing="ij")
    centre, radius = torch.rand(n, 2, 1, 1) * 8 + 4, torch.rand(n, 1, 1) * 2 + 2
    mask = ((rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2 < radius**2).unsqueeze(1).to(at.dtype)
    return mask + 0.3 * torch.randn(mask.shape), mask


def dice_loss(logits, target, smooth=1.0):
    p = torch.sigmoid(logits).flatten(1)
    t = target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + smooth) / (p.sum(1) + t.sum(1) + smooth)).mean()


torch.manual_seed(5)
model, bce = UNet(), nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
losses = []
for step in range(20):
    x, mask = discs(4)
    logits = model(x)
    loss = bce(logits, mask) + dice_loss(logits, mask)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
print(tuple(logits.shape))
