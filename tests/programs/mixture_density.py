"""A mixture density network: an inverse problem with several answers, torch.distributions mixtures, log-likelihood."""

import torch
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, Normal

torch.manual_seed(36)
y = torch.rand(200, 1) * 20 - 10
x = torch.sin(0.75 * y) * 7.0 + y * 0.5 + torch.randn(200, 1)


class MDN(nn.Module):
    def __init__(self, n=5):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, 20), nn.Tanh())
        self.z_pi, self.z_mu, self.z_sigma = nn.Linear(20, n), nn.Linear(20, n), nn.Linear(20, n)

    def forward(self, x):
        h = self.hidden(x)
        return MixtureSameFamily(Categorical(logits=self.z_pi(h)), Normal(self.z_mu(h), self.z_sigma(h).clamp(-3, 3).exp()))


model = MDN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
losses = []
for step in range(20):
    loss = -model(x).log_prob(y.squeeze(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(tuple(model(x[:7]).sample((3,)).shape))
