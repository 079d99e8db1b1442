"""Two processes that accelerate starts: what each prepared loader gives, gradients that are averaged, losses that are gathered."""

import json

import torch
from accelerate import Accelerator, debug_launcher
from accelerate.utils import broadcast, gather_object, pad_across_processes, reduce, set_seed
from torch.utils.data import DataLoader, TensorDataset


def train():
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    x = torch.randn(30, 4)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    seen = 0
    for inputs, targets in loader:
        loss = (model(inputs) - targets).pow(2).mean()
        accelerator.backward(loss)
        norm = accelerator.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
        losses = accelerator.gather(loss.detach().reshape(1))
        seen += len(accelerator.gather_for_metrics(inputs))
        if accelerator.process_index == 0:
            print(json.dumps({"losses": losses.tolist(), "norm": norm.item(), "type": type(model).__name__}), flush=True)
    rank = accelerator.process_index
    mine = torch.arange(rank + 1.0)
    told = {
        "padded": accelerator.gather(pad_across_processes(mine, pad_index=-1)).tolist(),
        "mean": reduce(torch.tensor([float(rank)]), "mean").tolist(),
        "first": broadcast(torch.tensor([float(rank + 5)])).tolist(),
        "objects": gather_object([rank]),
        "seen": seen,
    }
    with accelerator.split_between_processes(list(range(5))) as part:
        told["part"] = part
    if rank == 0:
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    debug_launcher(train, num_processes=2)
