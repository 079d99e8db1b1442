"""The flight recorder around a loop with accelerate, whose loaders fetch one batch ahead: each kept step is repeated bit for bit."""

import json

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import workbench as wb


def train():
    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
    x = torch.randn(44, 10)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-5)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=60)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    with wb.flight(model, optimizer, path="run.flight") as flight:
        for _ in range(3):
            for inputs, labels in loader:
                with accelerator.accumulate(model):
                    loss = nn.functional.cross_entropy(model(inputs), labels)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
    return flight


flight = train()
steps, opened = flight.steps[-3:], wb.open(flight.save())
again = [flown.repeat(step, train) for flown in (flight, opened) for step in steps]
print(json.dumps({"steps": flight.count, "not kept": dict(flight.left_out), "same": [one.same for one in again]}))
print(json.dumps({"losses": [round(one.loss, 3) for one in steps]}))
