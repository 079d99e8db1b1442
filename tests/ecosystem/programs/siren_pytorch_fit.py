"""A SIREN learns a small picture, through its wrapper and its modulator."""

import json
import time

import torch
from siren_pytorch import SirenNet, SirenWrapper

torch.manual_seed(0)
net = SirenNet(dim_in=2, dim_hidden=32, dim_out=3, num_layers=3, final_activation=torch.nn.Sigmoid(), w0_initial=30.0)
wrapper = SirenWrapper(net, latent_dim=16, image_width=12, image_height=12)
latent = torch.randn(16).requires_grad_()
picture = torch.rand(1, 3, 12, 12)
optimizer = torch.optim.Adam([*wrapper.parameters(), latent], lr=1e-3)
started = time.perf_counter()
for _ in range(5):
    optimizer.zero_grad()
    loss = wrapper(picture, latent=latent)
    loss.backward()
    optimizer.step()
    print(json.dumps({"loss": loss.item(), "latent": latent.grad.norm().item()}))
print(json.dumps({"seconds": time.perf_counter() - started, "mean": wrapper(latent=latent).mean().item()}))
