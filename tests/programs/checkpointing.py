"""Training that is interrupted: model, optimizer and schedule are saved to a file, loaded into new objects, and go on."""

import os
import tempfile

import torch
from torch import nn


def make():
    model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.GLU(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=6)


def train(model, optimizer, scheduler, steps):
    for _ in range(steps):
        x = torch.randn(16, 6)
        loss = nn.functional.smooth_l1_loss(model(x), x.prod(dim=1, keepdim=True) + x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item()


torch.manual_seed(35)
parts = make()
losses = list(train(*parts, 10))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    names = ("model_state_dict", "optimizer_state_dict", "scheduler_state_dict")
    torch.save({"epoch": 10, "loss": losses[-1], **{n: p.state_dict() for n, p in zip(names, parts)}}, path)
    rng_state = torch.get_rng_state()
    model, optimizer, scheduler = make()
    checkpoint = torch.load(path, weights_only=True)
model.load_state_dict(checkpoint["model_state_dict"])
optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
scheduler.load_state_dict(checkpoint["scheduler_state_dict"])
torch.set_rng_state(rng_state)
assert checkpoint["epoch"] == 10 and checkpoint["loss"] == losses[-1]
losses += train(model, optimizer, scheduler, 10)
print(scheduler.get_last_lr())
