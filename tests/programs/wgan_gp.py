"""A Wasserstein GAN with gradient penalty: the critic's loss holds a gradient, so its update needs second derivatives."""

import torch
from torch import autograd, nn

torch.manual_seed(17)
generator = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 24), nn.SiLU(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))


def gradient_penalty(real, fake):
    alpha = torch.rand(real.size(0), 1).expand_as(real)
    between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (gradients,) = autograd.grad(
        outputs=critic(between), inputs=between, grad_outputs=torch.ones(real.size(0), 1), create_graph=True, retain_graph=True
    )
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


losses = []
for step in range(20):
    real = torch.randn(24, 2) * torch.tensor([1.0, 0.3]) + torch.tensor([2.0, -1.0])
    with torch.no_grad():
        fake = generator(torch.randn(24, 2))
    c_loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(real, fake)
    c_optimizer.zero_grad()
    c_loss.backward()
    c_optimizer.step()
    if step % 2:
        for p in critic.parameters():
            p.requires_grad_(False)
        g_loss = -critic(generator(torch.randn(24, 2))).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        for p in critic.parameters():
            p.requires_grad_(True)
    losses.append(c_loss.item())
print(f"{losses[-1]:.4f}")
