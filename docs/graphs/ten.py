"""Ten architectures as a course has them, in PyTorch's words. They run on PyTorch, and on `engine` under its name (`install_as_torch`)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class LeNet(nn.Module):
    """LeCun et al. 1998, with ReLU and max pooling."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class DoubleConv(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer)
        self.conv2, self.bn2 = nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)))


class UNet(nn.Module):
    """Ronneberger et al. 2015: three times down and up, with a skip at each height."""

    def __init__(self, width=8):
        super().__init__()
        self.down1, self.down2 = DoubleConv(1, width), DoubleConv(width, 2 * width)
        self.down3, self.bottom = DoubleConv(2 * width, 4 * width), DoubleConv(4 * width, 8 * width)
        self.pool = nn.MaxPool2d(2)
        self.up3, self.dec3 = nn.ConvTranspose2d(8 * width, 4 * width, 2, 2), DoubleConv(8 * width, 4 * width)
        self.up2, self.dec2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), DoubleConv(4 * width, 2 * width)
        self.up1, self.dec1 = nn.ConvTranspose2d(2 * width, width, 2, 2), DoubleConv(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(self.pool(d1))
        d3 = self.down3(self.pool(d2))
        x = self.bottom(self.pool(d3))
        x = self.dec3(torch.cat([self.up3(x), d3], 1))
        x = self.dec2(torch.cat([self.up2(x), d2], 1))
        x = self.dec1(torch.cat([self.up1(x), d1], 1))
        return self.head(x)


class BasicBlock(nn.Module):
    """Two convolutions and the way around them (He et al. 2015, figure 2)."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
        self.conv2, self.bn2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.downsample = None
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return F.relu(out)


class ResNet18(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv1, self.bn1, self.maxpool = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.MaxPool2d(3, 2, 1)
        stages = [(1, 1, 1), (1, 2, 2), (2, 4, 2), (4, 8, 2)]
        for at, (inner, outer, stride) in enumerate(stages, 1):
            blocks = BasicBlock(inner * width, outer * width, stride), BasicBlock(outer * width, outer * width, 1)
            setattr(self, f"layer{at}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8 * width, 10)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Decoder(nn.Module):
    """One turn: attention over what the encoder read (Bahdanau et al. 2014), then an LSTM cell."""

    def __init__(self, tokens, width):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(tokens, width), nn.LSTMCell(2 * width, width)
        self.score, self.out = nn.Linear(width, width), nn.Linear(width, tokens)

    def forward(self, token, state, memory):
        weights = torch.softmax((memory * self.score(state[0]).unsqueeze(1)).sum(-1), -1)
        context = (weights.unsqueeze(-1) * memory).sum(1)
        h, c = self.cell(torch.cat([self.embedding(token), context], -1), state)
        return self.out(h), (h, c)


class Seq2Seq(nn.Module):
    def __init__(self, tokens=20, width=16):
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(tokens, width), nn.LSTM(width, width, batch_first=True)
        self.decoder = Decoder(tokens, width)

    def forward(self, source, target):
        memory, (h, c) = self.encoder(self.embedding(source))
        state = h[0], c[0]
        logits = []
        for t in range(target.shape[1]):
            out, state = self.decoder(target[:, t], state, memory)
            logits.append(out)
        return torch.stack(logits, 1)


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), Attention(width, heads, causal)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """Radford et al. 2019, small; the output layer shares the weight of the token embedding."""

    def __init__(self, blocks=4, width=32, heads=2, tokens=64, length=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads, True) for _ in range(blocks)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


class ViT(nn.Module):
    """Dosovitskiy et al. 2020, small: patches, a class token, blocks."""

    def __init__(self, blocks=6, width=32, heads=2, patch=4, size=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*[Block(width, heads, False) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class VAE(nn.Module):
    """Kingma and Welling 2013."""

    def __init__(self, width=64, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, width), nn.ReLU())
        self.mean, self.logvar = nn.Linear(width, latent), nn.Linear(width, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 784), nn.Sigmoid())

    def forward(self, x):
        h = self.encoder(x)
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return self.decoder(z), mean, logvar


class Field(nn.Module):
    """The right side of a neural ODE (Chen et al. 2018); the classical Runge-Kutta method takes 60 steps through it."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, t, y):
        return self.net(y**3)


# What makes each and its data, and what one step of its training computes: two cells of a notebook.
TEN = {
    "MLP": (
        """model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
x, y = torch.randn(16, 784), torch.randint(0, 10, (16,))""",
        "loss = F.cross_entropy(model(x), y)",
    ),
    "LeNet": (
        """model = LeNet()
images, labels = torch.randn(8, 1, 28, 28), torch.randint(0, 10, (8,))""",
        "loss = F.cross_entropy(model(images), labels)",
    ),
    "U-Net": (
        """model = UNet()
image, mask = torch.randn(2, 1, 32, 32), torch.randint(0, 2, (2, 32, 32))""",
        "loss = F.cross_entropy(model(image), mask)",
    ),
    "ResNet-18": (
        """model = ResNet18()
images, labels = torch.randn(2, 3, 64, 64), torch.randint(0, 10, (2,))""",
        "loss = F.cross_entropy(model(images), labels)",
    ),
    "LSTM seq2seq with attention": (
        """model = Seq2Seq()
source, target = torch.randint(0, 20, (4, 9)), torch.randint(0, 20, (4, 8))""",
        """logits = model(source, target)
loss = F.cross_entropy(logits.reshape(-1, 20), target.reshape(-1))""",
    ),
    "GPT with tied weights": (
        """model = GPT()
idx, targets = torch.randint(0, 64, (2, 16)), torch.randint(0, 64, (2, 16))""",
        """logits = model(idx)
loss = F.cross_entropy(logits.reshape(-1, 64), targets.reshape(-1))""",
    ),
    "ViT": (
        """model = ViT()
images, labels = torch.randn(2, 3, 16, 16), torch.randint(0, 10, (2,))""",
        "loss = F.cross_entropy(model(images), labels)",
    ),
    "VAE": (
        """model = VAE()
x = torch.rand(16, 784)""",
        """out, mean, logvar = model(x)
reconstruction = F.binary_cross_entropy(out, x, reduction="sum")
divergence = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum()
loss = reconstruction + divergence""",
    ),
    "GAN": (
        """generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 784), nn.Tanh())
discriminator = nn.Sequential(nn.Linear(784, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
real, noise = torch.randn(16, 784), torch.randn(16, 16)
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)""",
        """fake = generator(noise)
d_loss = F.binary_cross_entropy_with_logits(discriminator(real), ones)
d_loss = d_loss + F.binary_cross_entropy_with_logits(discriminator(fake.detach()), zeros)
d_loss.backward()
g_loss = F.binary_cross_entropy_with_logits(discriminator(fake), ones)""",
    ),
    "Neural ODE": (
        """field = Field()
start, end = torch.tensor([[2.0, 0.0]]), torch.tensor([[-1.0, 1.0]])""",
        """y, dt = start, 0.1
for step in range(60):
    k1 = field(step * dt, y)
    k2 = field(step * dt + dt / 2, y + dt / 2 * k1)
    k3 = field(step * dt + dt / 2, y + dt / 2 * k2)
    k4 = field(step * dt + dt, y + dt * k3)
    y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
loss = F.mse_loss(y, end)""",
    ),
}
