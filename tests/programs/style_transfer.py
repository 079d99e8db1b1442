"""Style transfer on a random network: Gram matrices, an image as the parameter, L-BFGS with a closure, total variation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(26)
cnn = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(8, 12, 3)
)
for p in cnn.parameters():
    p.requires_grad_(False)


def gram_matrix(x):
    b, c, h, w = x.size()
    features = x.view(b * c, h * w)
    return torch.mm(features, features.t()).div(b * c * h * w)


def features_of(x):
    found = []
    for layer in cnn:
        x = layer(x)
        if isinstance(layer, nn.Conv2d):
            found.append(x)
    return found


at = torch.linspace(0, 6.28, 16)
content = (torch.sin(at)[:, None] * torch.cos(at)[None, :]).repeat(1, 3, 1, 1) * torch.tensor([1.0, 0.5, 0.2]).view(1, 3, 1, 1)
style = torch.rand(1, 3, 16, 16)
wanted_content, wanted_style = features_of(content)[-1], [gram_matrix(f) for f in features_of(style)]
image = nn.Parameter(content.clone())
optimizer = torch.optim.LBFGS([image], lr=0.5, max_iter=1)
losses = []


def closure():
    with torch.no_grad():
        image.clamp_(-2, 2)
    optimizer.zero_grad()
    features = features_of(image)
    style_score = sum(F.mse_loss(gram_matrix(f), g) for f, g in zip(features, wanted_style))
    content_score = F.mse_loss(features[-1], wanted_content)
    variation = (image[..., 1:] - image[..., :-1]).abs().mean() + (image[..., 1:, :] - image[..., :-1, :]).abs().mean()
    loss = 1e3 * style_score + content_score + 0.1 * variation
    loss.backward()
    return loss


for step in range(20):
    losses.append(optimizer.step(closure).item())
print(tuple(image.shape))
