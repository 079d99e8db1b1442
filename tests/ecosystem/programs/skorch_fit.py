"""skorch: a classifier and a regressor in scikit-learn's pipelines, with callbacks, a grid, and a saved state."""

import json
import pickle
import time

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring, GradientNormClipping, LRScheduler
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(120, 6)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int64")


class Net(nn.Module):
    def __init__(self, width=12, outputs=2):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, outputs))

    def forward(self, x):
        return self.layers(x)


started = time.perf_counter()
net = NeuralNetClassifier(
    Net, module__width=16, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam, lr=0.02, max_epochs=4, batch_size=16, verbose=0,
    iterator_train__shuffle=True, callbacks=[
        LRScheduler("StepLR", step_size=2), GradientNormClipping(1.0), EarlyStopping(patience=3), Checkpoint(dirname="kept"),
        EpochScoring("roc_auc", name="auc"),
    ],
)  # fmt: skip
net.fit(x, y)
for row in net.history:
    print(json.dumps({k: float(row[k]) for k in ("train_loss", "valid_loss", "valid_acc", "auc")}))
print(json.dumps({"proba": net.predict_proba(x[:3]).tolist(), "labels": net.predict(x[:6]).tolist()}))
again = pickle.loads(pickle.dumps(net))
print(json.dumps({"proba": again.predict_proba(x[:2]).tolist(), "repr": "Net" in repr(again)}))
net.save_params(f_params="p.pt", f_optimizer="o.pt", f_history="h.json")
fresh = NeuralNetClassifier(Net, module__width=16, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam).initialize()
fresh.load_params(f_params="p.pt", f_optimizer="o.pt", f_history="h.json")
print(json.dumps({"proba": fresh.predict_proba(x[:2]).tolist()}))
regressor = NeuralNetRegressor(Net, module__outputs=1, max_epochs=3, lr=0.05, verbose=0, train_split=None)
pipe = make_pipeline(StandardScaler(), regressor)
pipe.fit(x, y[:, None].astype("float32"))
print(json.dumps({"losses": pipe[-1].history[:, "train_loss"]}))
grid = GridSearchCV(
    NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, max_epochs=2, verbose=0, train_split=None),
    {"lr": [0.1, 0.01], "module__width": [4, 8]},
    cv=2,
    refit=False,
)
torch.manual_seed(1)
grid.fit(x, y)
print(json.dumps({"scores": grid.cv_results_["mean_test_score"].tolist()}))
binary = NeuralNetBinaryClassifier(Net, module__outputs=1, max_epochs=2, verbose=0, train_split=None).fit(x, y.astype("float32"))
print(json.dumps({"binary": binary.predict_proba(x[:2]).tolist(), "seconds": time.perf_counter() - started}))
