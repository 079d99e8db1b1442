"""Lightning: a Trainer with callbacks, checkpoints, clipping and accumulation, bf16, prediction, and Fabric."""

import json
import logging
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Net(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 3))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, i):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train", loss, on_step=True, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch, i):
        x, y = batch
        self.log("val", nn.functional.cross_entropy(self(x), y))

    def predict_step(self, batch, i):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class Told(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, i):
        if i % 4 == 0:
            print(json.dumps({"loss": outputs["loss"].item()}))


def trainer(**options):
    return L.Trainer(accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, **options)


L.seed_everything(0)
x = torch.randn(256, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
data = TensorDataset(x, y)
kept = ModelCheckpoint(monitor="val", dirpath="kept")
started = time.perf_counter()
fit = trainer(
    max_epochs=3, gradient_clip_val=0.5, accumulate_grad_batches=2, logger=CSVLogger("logs"),
    callbacks=[Told(), kept, EarlyStopping("val"), LearningRateMonitor(), StochasticWeightAveraging(1e-2, 2)],
)  # fmt: skip
fit.fit(Net(), DataLoader(data, 16, shuffle=True), DataLoader(data, 32))
print(json.dumps({"seconds": time.perf_counter() - started, **{k: v.item() for k, v in fit.callback_metrics.items()}}))
best = Net.load_from_checkpoint(kept.best_model_path)
print(
    json.dumps({"score": kept.best_model_score.item(), "first": trainer(logger=False).predict(best, DataLoader(data, 64))[0][0].tolist()})
)
again = trainer(max_epochs=4, logger=False, enable_checkpointing=False)
again.fit(Net(), DataLoader(data, 16), ckpt_path=kept.best_model_path)
print(json.dumps({"resumed": again.current_epoch, "train": again.callback_metrics["train_epoch"].item()}))
mixed = trainer(max_epochs=1, precision="bf16-mixed", logger=False, enable_checkpointing=False, limit_train_batches=4)
mixed.fit(best, DataLoader(data, 16))
print(json.dumps({"steps": mixed.global_step}))
fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.launch()
fabric.seed_everything(1)
model = nn.Linear(8, 3)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
for a, b in fabric.setup_dataloaders(DataLoader(data, 64)):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(a), b)
    fabric.backward(loss)
    optimizer.step()
    print(json.dumps({"fabric": loss.item()}))
