"""A convolutional denoising autoencoder: strided convolutions down, transposed convolutions up, weights tied by a penalty."""

import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(15)
images = torch.as_tensor(load_digits().images, dtype=torch.get_default_dtype()).div_(16).unsqueeze_(1)

encoder = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1),
    nn.ELU(),
    nn.Conv2d(8, 16, 3, stride=2, padding=1),
    nn.ELU(),
)
decoder = nn.Sequential(
    nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1),
    nn.ELU(),
    nn.ConvTranspose2d(8, 1, 3, stride=2, padding=1, output_padding=1),
    nn.Sigmoid(),
)
model = nn.Sequential(encoder, decoder)
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
losses = []
for step, batch in enumerate(images.split(64)[:20]):
    noisy = (batch + 0.4 * torch.randn_like(batch)).clamp(0.0, 1.0)
    code = encoder(noisy)
    loss = nn.functional.mse_loss(decoder(code), batch) + 1e-3 * code.abs().mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"{10 * torch.log10(1 / torch.tensor(losses[-1])).item():.1f} dB")
