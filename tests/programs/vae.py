"""A variational autoencoder on digits: the reparameterization trick, binary cross-entropy plus a KL term in closed form."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, 40)
        self.fc21 = nn.Linear(40, 4)
        self.fc22 = nn.Linear(40, 4)
        self.fc3 = nn.Linear(4, 40)
        self.fc4 = nn.Linear(40, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


torch.manual_seed(14)
images = torch.tensor(load_digits().images / 16, dtype=torch.get_default_dtype())
train_loader = DataLoader(TensorDataset(images), batch_size=80, shuffle=True, drop_last=True)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
losses = []
model.train()
for (data,) in train_loader:
    optimizer.zero_grad()
    recon_batch, mu, logvar = model(data)
    loss = loss_function(recon_batch, data, mu, logvar)
    loss.backward()
    optimizer.step()
    losses.append(loss.item() / len(data))
    if len(losses) == 20:
        break
with torch.no_grad():
    sample = model.decode(torch.randn(8, 4)).view(8, 1, 8, 8)
print(len(losses), tuple(sample.shape))
