"""A small training by `ElasticJob` in which processes fail, and the same training in one process by plain code."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import timedelta
from itertools import groupby
from pathlib import Path

import numpy

import engine
import engine.distributed as dist
from engine import multiprocessing as mp
from engine import nn
from engine.data import DataLoader, DistributedSampler
from engine.nn.parallel import DistributedDataParallel

SAMPLES, BATCH, EPOCHS = 96, 3, 3
STEPS = EPOCHS * SAMPLES // BATCH // 4  # of four processes without failures
ROWS = numpy.random.default_rng(5).standard_normal((SAMPLES, 5))
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def parts(wrap=lambda model: model):
    engine.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(engine.float64)
    return model, wrap(model), engine.optim.Adam(model.parameters(), lr=0.01)


def loss_of(model, indices):
    rows = engine.tensor(ROWS[indices])
    return ((model(rows[:, :4]) - rows[:, 4:]) ** 2).mean()


def prepared(**options):
    """Return the job, its model, optimizer and loader in a process of a group."""
    inner, model, optimizer = parts(DistributedDataParallel)
    sampler = DistributedSampler(range(SAMPLES), seed=1)
    loader = DataLoader(range(SAMPLES), batch_size=BATCH, sampler=sampler)
    return dist.ElasticJob(model, optimizer, sampler, **options), inner, model, optimizer, loader


def run(rank, world, path, failures=(), seconds=20.0, load=False, until=None, saves=(), reach=True, epochs=EPOCHS, **options):
    """Train and write down what happened.

    `failures`: (rank at the start, step, "kill" | "stop" | "raise", "before" | "inside" | "after" the collectives, "saving", or
    "shrinking" after another failure). `load` goes on from the
    checkpoint, `until` ends after so many steps, and after those in `saves` one is written; with `reach=False` the processes seem to be on
    different machines. The memory in bytes is noted after each 1000th step.
    """
    dist.init_process_group("gloo", f"file://{path}/met", timedelta(seconds=seconds), world, rank)
    job, inner, model, optimizer, loader = prepared(**options)
    if not reach:
        job._places = [(f"machine {r}", pid) for r, (_, pid) in enumerate(job._places)]
    if load:
        job.load(f"{path}/saved")
    mine = {(step, where): how for who, step, how, where in failures if who == rank}
    note, longest, memory, error = engine.ones(50_000), 0.0, [], None

    def fail(where):
        how = mine.pop((job.steps, where), None)
        if how == "raise":
            raise KeyError("as expected")
        if how is not None:
            os.kill(os.getpid(), SIGNALS[how])

    rebuild = job._rebuild
    job._rebuild = lambda: (fail("shrinking"), rebuild())
    try:
        with open(f"{path}/log{rank}", "w", buffering=1) as log:
            for batch in job.batches(loader, epochs):
                entered = time.monotonic()
                with job.step():
                    print(json.dumps([job.steps, job.recoveries, job.group.size(), batch.tolist()]), file=log)
                    loss = loss_of(model, batch.tolist())
                    fail("before")
                    work = dist.all_reduce(note, dist.ReduceOp.AVG, async_op=True)
                    fail("inside")
                    loss.backward()
                    assert work is not None
                    work.wait()
                    fail("after")
                    optimizer.step()
                    optimizer.zero_grad()
                longest = max(longest, time.monotonic() - entered)
                if job.steps % 1000 == 0:
                    memory.append(dist.world.monitor().state()["memory"])
                if job.steps in saves:
                    fail("saving")
                    job.save(f"{path}/saved")
                if job.steps == until:
                    break
    except dist.DistError as caught:
        error = str(caught)
    found = {"parameters": [p.detach().tolist() for p in inner.parameters()], "longest": longest, "memory": memory, "error": error}
    found |= {"steps": job.steps, "ranks": job.group.size(), "recoveries": job.recoveries}
    Path(path, f"result{rank}").write_text(json.dumps(found))
    os._exit(0)


def started(path, world, **how):
    """Start the processes of a training."""
    os.makedirs(path, exist_ok=True)
    for old in (path / "met", *path.glob("result*"), *path.glob("log*")):
        old.unlink(missing_ok=True)
    processes = [mp.get_context("fork").Process(target=run, args=(rank, world, str(path)), kwargs=how) for rank in range(world)]
    for process in processes:
        process.start()
    return processes


def ended(path, processes, limit=120.0):
    """Wait for the processes; return the results by rank of those that have one."""
    end = time.monotonic() + limit
    for process in processes:
        process.join(max(0.1, end - time.monotonic()))
    hang = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
        process.join()
    assert not hang, f"ranks {hang} hang"
    return {r: json.loads((path / f"result{r}").read_text()) for r in range(len(processes)) if (path / f"result{r}").exists()}


def train(path, world, **how):
    return ended(path, started(path, world, **how))


def logged(path, results):
    """Return the batches of the ranks by step as they were in the end, and the sizes of the job with their numbers of steps."""
    last, batches = {}, {}
    for file in sorted(path.glob("log*")):
        for line in file.read_text().splitlines():
            step, recoveries, size, batch = json.loads(line)
            batches.setdefault((step, recoveries, size), []).append(batch)
            if int(file.name[3:]) in results:
                last[step] = max((recoveries, size), last.get(step, (0, 0)))
    sizes = [(size, len(list(steps))) for (_, size), steps in groupby(last[step] for step in sorted(last))]
    return [batches[step, *last[step]] for step in sorted(last)], sizes


def expected(sizes):
    """Return the batches of the ranks in each step, and the parameters in the end, for sizes of the job with their numbers of steps."""
    inner, model, optimizer = parts()
    epoch = seen = 0
    batches = []
    for size, steps in sizes:
        shares = [[]]
        for _ in range(steps):
            if not shares[0]:
                epoch, seen = (epoch, seen) if seen < SAMPLES else (epoch + 1, 0)
                order = engine.randperm(SAMPLES, generator=engine.Generator().manual_seed(1 + epoch)).tolist()[seen:]
                order = (order * size)[: -(-len(order) // size) * size]
                shares = [order[rank::size] for rank in range(size)]
            batches.append([share[:BATCH] for share in shares])
            shares = [share[BATCH:] for share in shares]
            seen += BATCH * size
            optimizer.zero_grad()
            (sum(loss_of(model, batch) for batch in batches[-1]) / size).backward()
            optimizer.step()
    assert seen >= SAMPLES and epoch == EPOCHS - 1
    return batches, [p.detach().numpy() for p in inner.parameters()]


def difference(results, parameters):
    """Return the largest difference of a parameter from the expected ones."""
    found = [zip(result["parameters"], parameters, strict=True) for result in results.values()]
    return max(float(abs(numpy.array(a) - b).max()) for pairs in found for a, b in pairs)


def checked(path, results):
    """Check what the ranks have seen in each step against one process; return the largest difference of a parameter."""
    seen, sizes = logged(path, results)
    batches, parameters = expected(sizes)
    assert seen == batches
    return difference(results, parameters)
