"""A training loop with accelerate: prepare, accumulate, backward, clip, gather, and a state that is saved and loaded."""

import json
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
x = torch.randn(48, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-5)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=24)
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
accelerator.register_for_checkpointing(scheduler)


def epoch():
    model.train()
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            norm = accelerator.clip_grad_norm_(model.parameters(), 1.0) if accelerator.sync_gradients else None
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        told = accelerator.gather(loss.detach()).mean().item(), None if norm is None else norm.item(), scheduler.get_last_lr()[0]
        print(json.dumps(dict(zip(("loss", "norm", "lr"), told))))


started = time.perf_counter()
epoch()
print(json.dumps({"seconds": time.perf_counter() - started}))
accelerator.save_state("state")
before = [p.clone() for p in model.parameters()]
epoch()
after = [p.clone() for p in model.parameters()]
accelerator.load_state("state")
print(json.dumps({"as it was": all(torch.equal(a, b) for a, b in zip(before, model.parameters()))}))
epoch()
print(json.dumps({"again": all(torch.allclose(a, b, atol=1e-6) for a, b in zip(after, model.parameters()))}))

model.eval()
with torch.no_grad():
    logits, labels = accelerator.gather_for_metrics((model(x), y))
print(json.dumps({"accuracy": (logits.argmax(1) == labels).float().mean().item()}))
accelerator.save_model(accelerator.unwrap_model(model), "model")
unwrapped = accelerator.unwrap_model(model, keep_torch_compile=False)
print(json.dumps({"type": type(unwrapped).__name__, "device": str(accelerator.device), "keys": sorted(accelerator.get_state_dict(model))}))
