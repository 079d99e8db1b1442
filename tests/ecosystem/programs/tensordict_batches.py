"""tensordict: nested batches, modules, memory-mapped files and stacked parameters."""

import json
import time

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

torch.manual_seed(0)
started = time.perf_counter()
data = TensorDict({"x": torch.randn(4, 3), "nested": {"y": torch.arange(8.0).reshape(4, 2)}}, batch_size=[4])
model = TensorDictSequential(
    TensorDictModule(nn.Linear(3, 5), in_keys=["x"], out_keys=["hidden"]),
    TensorDictModule(nn.Sequential(nn.Tanh(), nn.Linear(5, 2)), in_keys=["hidden"], out_keys=["out"]),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    out = model(data.clone())
    loss = (out["out"] - out["nested", "y"]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(json.dumps({"loss": loss.item()}))
stacked = torch.stack([data, data + 1], 0)
print(json.dumps({
    "stacked": list(stacked.shape), "keys": sorted(map(str, data.keys(True, True))), "sum": stacked["nested", "y"].sum().item(), "split": [list(d.shape) for d in data.split(2)],
    "row": data[1]["x"].tolist(), "flat": sorted(data.flatten_keys(".").keys()), "reshaped": list(stacked.reshape(-1).shape), "seconds": time.perf_counter() - started,
}))  # fmt: skip
