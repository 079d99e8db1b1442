"""fastai: learners of numbers, pictures and tables, with its loaders, transforms, schedules, callbacks and optimizers."""

# rtol: 1e-3, because the learning rate finder goes to rates at which losses explode

import json
import time
import warnings

import numpy as np
import pandas as pd
import torch
from fastai.basics import CategoryBlock, CrossEntropyLossFlat, DataBlock, DataLoaders, IndexSplitter, Learner, set_seed
from fastai.callback.hook import hook_outputs
from fastai.callback.mixup import MixUp
from fastai.callback.schedule import *  # noqa: F403  it puts fit_one_cycle and lr_find on the learner
from fastai.data.transforms import Normalize
from fastai.losses import LabelSmoothingCrossEntropyFlat
from fastai.metrics import F1Score, accuracy
from fastai.optimizer import ranger
from fastai.tabular.core import Categorify, FillMissing
from fastai.tabular.data import TabularDataLoaders
from fastai.tabular.learner import tabular_learner
from fastai.text.models.awdlstm import AWD_LSTM
from fastai.vision.augment import Resize
from fastai.vision.core import PILImage, imagenet_stats
from fastai.vision.data import ImageBlock
from fastai.vision.models.xresnet import xresnet18
from torch import nn
from torch.utils.data import TensorDataset

warnings.filterwarnings("ignore")


def told(learner):
    print(
        json.dumps(
            {"losses": [float(v) for v in learner.recorder.losses], "values": [[float(v) for v in row] for row in learner.recorder.values]}
        )
    )


set_seed(0)
x = torch.randn(128, 8)
data = TensorDataset(x, (x[:, 0] > 0).long())
loaders = DataLoaders.from_dsets(data, data, bs=16, device="cpu", num_workers=0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 2))
learner = Learner(loaders, model, loss_func=CrossEntropyLossFlat(), metrics=accuracy)
started = time.perf_counter()
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(3, 1e-2)
    told(learner)
    learner.save("kept")
    learner.load("kept")
    predictions, targets = learner.get_preds()
print(json.dumps({"predictions": predictions[:2].tolist(), "targets": targets[:5].tolist()}))
with hook_outputs(model) as hooks:
    model(x[:2])
    print(json.dumps({"shapes": [list(stored.shape) for stored in hooks.stored]}))

pictures = [PILImage.create(np.random.RandomState(i).randint(0, 255, (32, 32, 3)).astype(np.uint8)) for i in range(24)]
block = DataBlock(
    blocks=(ImageBlock, CategoryBlock), get_x=lambda i: pictures[i], get_y=lambda i: "ab"[i % 2], splitter=IndexSplitter(range(16, 24)),
    item_tfms=Resize(24), batch_tfms=[Normalize.from_stats(*imagenet_stats)],
)  # fmt: skip
loaders = block.dataloaders(range(24), bs=8, num_workers=0, device="cpu")
set_seed(1)
batch = loaders.one_batch()
print(json.dumps({"type": type(batch[0]).__name__, "shape": list(batch[0].shape), "mean": float(batch[0].mean())}))
learner = Learner(
    loaders, xresnet18(n_out=2, act_cls=nn.Mish), loss_func=LabelSmoothingCrossEntropyFlat(), opt_func=ranger, metrics=[accuracy, F1Score()],
    cbs=[MixUp(0.4)],
)  # fmt: skip
with learner.no_bar(), learner.no_logging():
    learner.fit(1, 1e-3)
    told(learner)
print(json.dumps({"summary": "Total trainable params" in learner.summary()}))

set_seed(2)
table = pd.DataFrame({"a": np.random.randn(64), "b": np.random.choice(list("xyz"), 64), "y": np.random.choice(["p", "n"], 64)})
loaders = TabularDataLoaders.from_df(
    table,
    y_names="y",
    cat_names=["b"],
    cont_names=["a"],
    procs=[Categorify, FillMissing, Normalize],
    bs=16,
    valid_idx=range(48, 64),
    device="cpu",
)
learner = tabular_learner(loaders, layers=[8], metrics=accuracy)
with learner.no_bar(), learner.no_logging():
    learner.fit(2)
    told(learner)
    print(json.dumps({"valley": learner.lr_find(show_plot=False, num_it=10).valley}))
set_seed(3)
print(json.dumps({"awd": AWD_LSTM(20, 8, 8, 2)(torch.randint(0, 20, (2, 5))).sum().item(), "seconds": time.perf_counter() - started}))
