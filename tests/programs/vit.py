"""A vision transformer on digits: patches by unfold, a class token, nn.MultiheadAttention, pre-norm blocks, stochastic depth."""

import torch
from sklearn.datasets import load_digits
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * dim, dim))

    def forward(self, x, drop=0.2):
        y = self.norm1(x)
        y, self.weights = self.attn(y, y, y, need_weights=True, average_attn_weights=False)
        if self.training:  # stochastic depth: a sample's branch is left out as a whole
            keep = torch.bernoulli(torch.full((x.shape[0], 1, 1), 1 - drop)) / (1 - drop)
            y = y * keep
        x = x + y
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, dim=16, patch=2, size=8, depth=2):
        super().__init__()
        self.patch = patch
        self.project = nn.Linear(patch * patch, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos_embed = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, (size // patch) ** 2 + 1, dim), std=0.02))
        self.blocks = nn.ModuleList([Attention(dim, 4) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 10))

    def forward(self, images):
        patches = images.unfold(2, self.patch, self.patch).unfold(3, self.patch, self.patch)
        patches = patches.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)
        x = self.project(patches)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


torch.manual_seed(13)
digits = load_digits()
images, labels = torch.tensor(digits.images / 16, dtype=torch.get_default_dtype())[:, None], torch.tensor(digits.target)
model = ViT()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
losses = []
for step in range(20):
    at = torch.randperm(len(images))[:32]
    loss = nn.functional.cross_entropy(model(images[at]), labels[at])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
print(tuple(model.blocks[0].weights.shape))
