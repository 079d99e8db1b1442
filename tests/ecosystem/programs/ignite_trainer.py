"""ignite: a trainer with metrics, handlers, checkpoints and schedules."""

import json
import time
import warnings

import torch
from ignite.contrib.handlers import ProgressBar  # noqa: F401
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import (
    Checkpoint,
    DiskSaver,
    EarlyStopping,
    EMAHandler,
    TerminateOnNan,
    create_lr_scheduler_with_warmup,
)
from ignite.metrics import Accuracy, ConfusionMatrix, Fbeta, Loss, Precision, Recall, RunningAverage, TopKCategoricalAccuracy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.manual_seed(0)
x = torch.randn(96, 5)
data = TensorDataset(x, (x[:, 0] + x[:, 1] ** 2 > 0.5).long())
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
trainer = create_supervised_trainer(
    model, optimizer, nn.CrossEntropyLoss(), output_transform=lambda x, y, p, loss: {"loss": loss.item()}, gradient_accumulation_steps=2
)
precision, recall = Precision(average=False), Recall(average=False)
evaluator = create_supervised_evaluator(model, {
    "accuracy": Accuracy(), "loss": Loss(nn.CrossEntropyLoss()), "confusion": ConfusionMatrix(2), "top": TopKCategoricalAccuracy(1), "f1": Fbeta(1.0, precision=precision, recall=recall),
})  # fmt: skip
RunningAverage(output_transform=lambda out: out["loss"]).attach(trainer, "running")
warm = create_lr_scheduler_with_warmup(
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), warmup_start_value=0.01, warmup_duration=4, warmup_end_value=0.1
)
trainer.add_event_handler(Events.ITERATION_STARTED, warm)
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan(output_transform=lambda out: out["loss"]))
EMAHandler(model, momentum=0.01).attach(trainer)
saver = Checkpoint({"model": model, "optimizer": optimizer, "trainer": trainer}, DiskSaver("saved", create_dir=True), n_saved=2)
trainer.add_event_handler(Events.EPOCH_COMPLETED, saver)
evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(5, lambda e: -e.state.metrics["loss"], trainer))


@trainer.on(Events.EPOCH_COMPLETED)
def told(engine):
    evaluator.run(DataLoader(data, 32))
    metrics = {k: v.tolist() if isinstance(v, torch.Tensor) else float(v) for k, v in evaluator.state.metrics.items()}
    print(json.dumps({"running": engine.state.metrics["running"], "lr": optimizer.param_groups[0]["lr"], **metrics}))


started = time.perf_counter()
trainer.run(DataLoader(data, 16, shuffle=True), max_epochs=3)
Checkpoint.load_objects({"model": model, "optimizer": optimizer, "trainer": trainer}, torch.load(saver.last_checkpoint))
print(json.dumps({"epoch": trainer.state.epoch, "seconds": time.perf_counter() - started}))
