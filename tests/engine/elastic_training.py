"""A small training by `ElasticJob` in which processes fail, and the same batches in one process."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import timedelta

import numpy

import engine
import engine.distributed as dist
from engine import multiprocessing as mp
from engine import nn
from engine.data import DataLoader, Dataset, DistributedSampler
from engine.nn.parallel import DistributedDataParallel

N, BATCH, EPOCHS = 96, 3, 3
DRAWN = numpy.random.default_rng(5).standard_normal((N, 5))


class Samples(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return i


def parts(wrap=lambda model: model):
    engine.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(engine.float64)
    return model, wrap(model), engine.optim.Adam(model.parameters(), lr=0.01)


def loss_of(model, indices):
    rows = engine.tensor(DRAWN[numpy.asarray(indices, int)])
    return ((model(rows[:, :4]) - rows[:, 4:]) ** 2).mean()


def run(rank, world, path, failures, options, seconds):
    """`failures`: (rank at the start, step, "kill" | "stop" | "raise", before or after backward)."""
    dist.init_process_group("gloo", f"file://{path}/met", timedelta(seconds=seconds), world, rank)
    inner, model, optimizer = parts(DistributedDataParallel)
    sampler = DistributedSampler(Samples(), seed=1)
    job = dist.ElasticJob(model, optimizer, sampler, **options)
    loader, waited = DataLoader(Samples(), batch_size=BATCH, sampler=sampler), 0.0
    mine = {step: (how, late) for who, step, how, late in failures if who == rank}

    def fail(late):
        how, when = mine.get(job.steps, (None, None))
        if when != late or how is None:
            return
        if how == "raise":
            raise KeyError("as expected")
        os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)

    with open(f"{path}/log{rank}", "w", buffering=1) as log:
        for batch in job.batches(loader, EPOCHS):
            entered = time.monotonic()
            with job.step():
                print(json.dumps([job.steps, job.recoveries, job.group.size(), job.epoch, batch.tolist()]), file=log)
                optimizer.zero_grad()
                loss = loss_of(model, batch.tolist())
                fail(False)
                loss.backward()
                fail(True)
                optimizer.step()
            waited = max(waited, time.monotonic() - entered)
    found = [p.detach().tolist() for p in inner.parameters()]
    with open(f"{path}/result{rank}.tmp", "w") as file:
        json.dump({"parameters": found, "waited": waited, "steps": job.steps, "ranks": job.group.size(), "recoveries": job.recoveries}, file)
    os.rename(f"{path}/result{rank}.tmp", f"{path}/result{rank}")
    os._exit(0)


def train(path, failures, world=4, options=None, seconds=20.0, limit=120.0):
    """Train with the failures; return the survivors' results."""
    os.makedirs(path, exist_ok=True)
    context = mp.get_context("fork")
    processes = [context.Process(target=run, args=(r, world, str(path), failures, options or {}, seconds)) for r in range(world)]
    for process in processes:
        process.start()
    end = time.monotonic() + limit
    for process in processes:
        process.join(max(0.1, end - time.monotonic()))
    hang = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
        process.join()
    assert not hang, f"ranks {hang} hang"
    results = [f"{path}/result{r}" for r in range(world) if os.path.exists(f"{path}/result{r}")]
    return [json.load(open(result)) for result in results]


def difference(path, results, world=4):
    """Return the largest difference of a parameter from one process that sees the same batches, all samples among them."""
    last, shares = {}, {}
    for rank in range(world):
        for line in open(f"{path}/log{rank}"):
            step, recoveries, size, epoch, batch = json.loads(line)
            shares.setdefault((step, recoveries), []).append((size, epoch, batch))
            if os.path.exists(f"{path}/result{rank}"):
                last[step] = max(recoveries, last.get(step, 0))
    inner, model, optimizer = parts()
    seen = {epoch: set() for epoch in range(EPOCHS)}
    for step in range(results[0]["steps"]):
        batches = shares[step, last[step]]
        assert len(batches) == batches[0][0]  # of all processes
        seen[batches[0][1]].update(i for _, _, batch in batches for i in batch)
        optimizer.zero_grad()
        (sum(loss_of(model, batch) for _, _, batch in batches) / len(batches)).backward()
        optimizer.step()
    assert all(len(epoch) == N for epoch in seen.values())
    expected = [p.detach().numpy() for p in inner.parameters()]
    return max(float(abs(numpy.array(a) - b).max()) for result in results for a, b in zip(result["parameters"], expected, strict=True))
