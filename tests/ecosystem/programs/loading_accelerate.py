"""accelerate makes models without memory, loads checkpoints into them, and saves and loads the state of a training."""

import json

import torch
from accelerate import (
    Accelerator,
    cpu_offload,
    disk_offload,
    dispatch_model,
    init_empty_weights,
    load_checkpoint_and_dispatch,
    load_checkpoint_in_model,
)
from accelerate.utils import compute_module_sizes, infer_auto_device_map, set_module_tensor_to_device
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, width), nn.LayerNorm(width), nn.Linear(width, 2)
        self.register_buffer("scale", torch.tensor([2.0]))

    def forward(self, x):
        return self.last(self.norm(self.first(x)).relu()) * self.scale


def told(model):
    return {name: [p.device.type, p.requires_grad, type(p).__name__] for name, p in model.named_parameters()}


torch.manual_seed(0)
model, x, y = Net(), torch.randn(32, 4), torch.arange(32) % 2
with torch.no_grad():
    print(json.dumps({"model": model(x).double().sum().item()}))
with init_empty_weights():
    empty = Net()
print(json.dumps({"empty": told(empty), "buffer": empty.scale.device.type}))
with init_empty_weights(include_buffers=True):
    large = nn.Sequential(*[nn.Linear(8192, 8192, bias=False) for _ in range(100)], nn.BatchNorm1d(8192))
print(json.dumps({"bytes": compute_module_sizes(large)[""], "buffer": large[-1].running_mean.device.type}))
print(json.dumps({"map": infer_auto_device_map(large, max_memory={"cpu": "100GB"})}))

accelerator = Accelerator(cpu=True)
accelerator.save_model(model, "whole")
accelerator.save_model(model, "sharded", max_shard_size=400)
torch.save(model.state_dict(), "model.bin")
for folder in ("whole", "sharded", "model.bin"):
    with init_empty_weights():
        loaded = Net()
    loaded = load_checkpoint_and_dispatch(loaded, folder, device_map={"": "cpu"})
    with torch.no_grad():
        print(json.dumps({"folder": folder, "told": told(loaded), "sum": loaded(x).double().sum().item()}))
for places in ({"": "disk"}, {"first": "cpu", "norm": "disk", "last": "cpu", "scale": "cpu"}):
    with init_empty_weights():
        loaded = Net()
    loaded = load_checkpoint_and_dispatch(loaded, "model.bin", device_map=places, offload_folder="offloaded")
    print(json.dumps({"places": places, "told": told(loaded), "sum": loaded(x).double().sum().item()}))
for offloaded in (cpu_offload(Net(), torch.device("cpu")), disk_offload(Net(), "on disk", torch.device("cpu"))):
    offloaded.eval()
    print(json.dumps({"offloaded": told(offloaded), "shape": list(offloaded(x).shape)}))
with init_empty_weights():
    loaded = Net()
load_checkpoint_in_model(loaded, "whole", device_map={"": "cpu"}, dtype=torch.float64)
print(json.dumps({"dtype": str(loaded.first.weight.dtype)}))
with init_empty_weights():
    loaded = Net()
set_module_tensor_to_device(loaded, "first.weight", "cpu", value=torch.ones(16, 4))
print(json.dumps({"set": told(loaded), "sum": loaded.first.weight.sum().item()}))
dispatched = dispatch_model(Net(), device_map={"": "cpu"})
print(json.dumps({"dispatched": list(dispatched(x).shape)}))

loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)


def epoch():
    for a, b in loader:
        loss = nn.functional.cross_entropy(model(a), b)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(json.dumps({"loss": loss.item()}))
    scheduler.step()


epoch()
accelerator.save_state("state")
drawn = torch.rand(3).tolist()
epoch()
accelerator.load_state("state")
print(json.dumps({"drawn": drawn, "again": torch.rand(3).tolist(), "rate": scheduler.get_last_lr()}))
epoch()
