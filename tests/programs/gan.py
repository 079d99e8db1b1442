"""A generative adversarial network for points on a ring: two optimizers, detached fakes, one-sided label smoothing."""

import math

import torch
import torch.nn as nn


class Generator(nn.Module):
    def __init__(self, nz=4):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(nz, 16), nn.BatchNorm1d(16), nn.ReLU(True), nn.Linear(16, 16), nn.ReLU(True), nn.Linear(16, 2))

    def forward(self, z):
        return self.main(z)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Linear") != -1:
        m.weight.data.normal_(0.0, 0.2)
    elif classname.find("BatchNorm") != -1:
        m.weight.data.normal_(1.0, 0.02)
        m.bias.data.fill_(0)


torch.manual_seed(16)
netG, netD = Generator(), nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
netG.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
losses = []
for step in range(20):
    angle = 2 * math.pi * torch.rand(32)
    real = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(32, 2)

    netD.zero_grad()
    errD_real = criterion(netD(real).view(-1), torch.full((32,), 0.9))
    errD_real.backward()
    fake = netG(torch.randn(32, 4))
    errD_fake = criterion(netD(fake.detach()).view(-1), torch.zeros(32))
    errD_fake.backward()
    optimizerD.step()

    netG.zero_grad()
    errG = criterion(netD(fake).view(-1), torch.ones(32))
    errG.backward()
    optimizerG.step()
    losses.append((errD_real + errD_fake).item() + errG.item())
print(fake.norm(dim=1).mean().item())
