"""Training that goes on when ranks are killed: `workbench cluster 4 docs/cluster/elastic.py`, and `kill -9` one of the processes.

Started again, with any number of ranks, it goes on from its last checkpoint, in the folder `checkpoints`.
"""

import os
from datetime import timedelta
from pathlib import Path

import engine
import engine.distributed as dist
import workbench as wb
from engine import nn
from engine.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group(timeout=timedelta(seconds=30))
images, labels = wb.samples.digits()
data = TensorDataset(images.flatten(1).float(), labels)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)

engine.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 10))
optimizer = engine.optim.Adam(model.parameters())
loss_of = nn.CrossEntropyLoss()

job = dist.ElasticJob(model, optimizer, sampler, checkpoint="checkpoints")
if Path("checkpoints").exists():
    job.load("checkpoints")
print(f"rank {dist.get_rank()} is process {os.getpid()}, from step {job.steps}")
for x, y in job.batches(loader, epochs=3):
    with job.step():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
    if job.steps % 50 == 0:
        job.save("checkpoints")
if dist.get_rank() == 0:
    loss = loss_of(model.module(data.tensors[0]), labels)
    print(f"loss {loss.item():.2f} after {job.steps} steps, with {dist.get_world_size()} ranks at the end")
