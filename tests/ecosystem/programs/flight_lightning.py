"""The flight recorder in Lightning's Trainer: each kept step is repeated bit for bit, from this process and from the file."""

import json
import logging
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import workbench as wb

warnings.filterwarnings("ignore")
for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Net(L.LightningModule):
    """Its loss depends on the numbers of the step and the epoch."""

    def __init__(self, manual=False, bad=None):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
        self.automatic_optimization, self.bad = not manual, bad

    def training_step(self, batch, i):
        parts = [batch["a"], batch["b"]] if isinstance(batch, dict) else [batch]
        loss = sum(nn.functional.cross_entropy(self.net(x), y) for x, y in parts)
        loss = loss * (1 + 0.01 * i + 0.1 * self.current_epoch + 0.001 * self.global_step)
        if self.global_step == self.bad:
            loss = loss * torch.log(torch.zeros(()) - 1)
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def validation_step(self, batch, i):
        x, y = batch
        self.log("val", nn.functional.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class Stream(IterableDataset):
    """Its length is not known, so Lightning fetches one batch ahead."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter([self.data[i] for i in torch.randperm(len(self.data)).tolist()])


recorders = []


def fit(loader=lambda data: DataLoader(data, 16, shuffle=True), manual=False, bad=None, **options):
    L.seed_everything(0, verbose=False)
    x = torch.randn(72, 8)
    data = TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())
    recorders.append(wb.flight_callback("lightning", path="run.flight"))
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "enable_checkpointing": False}
    trainer = L.Trainer(accelerator="cpu", max_epochs=2, callbacks=[recorders[-1]], **quiet, **options)
    trainer.fit(Net(manual, bad), loader(data), DataLoader(data, 32))


programs = {
    "plain": fit,
    "accumulation": lambda: fit(accumulate_grad_batches=2, gradient_clip_val=0.5),
    "manual": lambda: fit(manual=True),
    "stream": lambda: fit(lambda data: DataLoader(Stream(data), 16)),
    "two loaders": lambda: fit(lambda data: {"a": DataLoader(data, 16, shuffle=True), "b": DataLoader(data, 24, shuffle=True)}),
    "bf16": lambda: fit(precision="bf16-mixed", val_check_interval=2),
}
for name, program in programs.items():
    program()
    flight = recorders[-1].flight
    steps, opened = flight.steps[-3:], wb.open(flight.save())
    again = [flown.repeat(step, program) for flown in (flight, opened) for step in steps]
    print(json.dumps({"program": name, "steps": flight.count, "not kept": dict(flight.left_out), "same": [one.same for one in again]}))
    print(json.dumps({"losses": [round(one.loss, 3) for one in steps] if name != "bf16" else None}))


def broken():
    fit(bad=6)


broken()
flight = recorders[-1].flight
found = wb.check(wb.open("run.flight").repeat(program=broken)).findings[0]
print(json.dumps({"why": flight.why, "at": flight.at, "finding": found.code, "line": found.site.text.strip()}))
