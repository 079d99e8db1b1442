"""safetensors writes tensors and models and reads them back, whole and in slices."""

import json

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
from torch import nn


def show(what, tensors):
    told = {name: [str(t.dtype), list(t.shape), t.device.type] for name, t in sorted(tensors.items())}
    sums = {name: t.double().sum().item() for name, t in sorted(tensors.items()) if t.device.type == "cpu"}
    print(json.dumps({"what": what, "tensors": told, "sums": sums}))


torch.manual_seed(0)
kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
tensors = {str(d): (torch.randn(3, 4) * 3).abs().to(d) for d in kinds}
tensors |= {"empty": torch.zeros(0, 3), "scalar": torch.tensor(1.5)}
save_file(tensors, "all.safetensors", metadata={"format": "pt"})
show("load_file", load_file("all.safetensors"))
show("load", load(save(tensors)))
with safe_open("all.safetensors", framework="pt") as file:
    names = sorted(file.keys())
    print(json.dumps({"keys": names, "metadata": file.metadata()}))
    show("safe_open", {name: file.get_tensor(name) for name in names})
    part = file.get_slice("torch.float32")
    show("slices", {"rows": part[1:], "columns": part[:, 1:3]})
    print(json.dumps({"slice": [list(part.get_shape()), part.get_dtype()]}))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.norm = nn.BatchNorm1d(4)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.norm(self.embedding(ids)))


model, ids = Tied(), torch.tensor([0, 3, 5, 5])
for _ in range(3):
    loss = nn.functional.cross_entropy(model(ids), ids)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    print(json.dumps({"loss": loss.item()}))
save_model(model, "model.safetensors")
other = Tied()
print(json.dumps({"missing and unexpected": [sorted(x) for x in load_model(other, "model.safetensors")]}))
show("load_model", other.state_dict())
print(json.dumps({"loss": nn.functional.cross_entropy(other.eval()(ids), ids).item()}))
try:
    save_file({"a": model.embedding.weight, "b": model.head.weight}, "shared.safetensors")
except RuntimeError as error:
    print(json.dumps({"shared memory": type(error).__name__}))
