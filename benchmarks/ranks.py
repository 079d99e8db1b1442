"""Training on 2 ranks: the speed-up of a step, what the board of `wb.ranks` costs, and when it shows a pause.

    python benchmarks/ranks.py [--json FILE]          (needs two free cores)

A multilayer perceptron with batches of 4,096, in one job of 2 ranks, in turns: rank 0 trains alone with the whole batch while rank 1
waits; both train on halves of it without each other, which tells what the cores can do at most; both do so with DistributedDataParallel;
and both do so while the board is drawn. Medians of the turns are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import engine
import engine.distributed as dist
from engine import multiprocessing as mp
from engine import nn
from engine.nn.functional import cross_entropy
from workbench.distributed.ask import EVERY, Ranks

BATCH, WIDTH, TURNS, STEPS = 4096, 1024, 15, 4


class Drawn:
    """Takes the place of a cell's output."""

    def __init__(self) -> None:
        self.paused = threading.Event()

    def draw(self, html: str, text: str) -> None:
        if "paused" in text:
            self.paused.set()


def trained(model: nn.Module, x: engine.Tensor, y: engine.Tensor) -> float:
    """Return the seconds of a step."""
    optimizer = engine.optim.SGD(model.parameters(), lr=1e-3)
    start = time.perf_counter()
    for _ in range(STEPS):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    return (time.perf_counter() - start) / STEPS


def measure(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", f"file://{folder}/met", timedelta(seconds=300), 2, rank)
    engine.manual_seed(0)
    alone = nn.Sequential(nn.Linear(256, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    model = nn.parallel.DistributedDataParallel(alone)
    x, y = engine.randn(BATCH, 256), engine.randint(0, 10, (BATCH,))
    half = slice(rank * BATCH // 2, (rank + 1) * BATCH // 2)
    times: dict[str, list[float]] = {"one": [], "apart": [], "two": [], "board": []}
    for _ in range(TURNS):
        dist.barrier()
        if rank == 0:
            times["one"].append(trained(alone, x, y))
        dist.barrier()
        times["apart"].append(trained(alone, x[half], y[half]))
        dist.barrier()
        times["two"].append(trained(model, x[half], y[half]))
        board = Ranks(model, 10, Drawn())
        dist.barrier()
        times["board"].append(trained(model, x[half], y[half]))
        board.close()
    shown = []
    for _ in range(10):
        screen = Drawn()
        board = Ranks(screen=screen)
        time.sleep(EVERY)
        dist.barrier()
        start = time.perf_counter()
        if rank == 1:
            with board.alone():
                time.sleep(2)
        elif screen.paused.wait(10):
            shown.append(time.perf_counter() - start)
        dist.barrier()
        board.close()
    dist.destroy_process_group()
    if rank == 0:
        medians = {name: statistics.median(values) for name, values in times.items()}
        cost = statistics.median(b / a for a, b in zip(times["two"], times["board"], strict=True)) - 1
        found = {"ms": {name: 1000 * value for name, value in medians.items()}, "speedup": medians["one"] / medians["two"]}
        found["at most"] = medians["one"] / medians["apart"]
        found |= {"board": cost, "seconds until a pause is shown": [min(shown), statistics.median(shown), max(shown)]}
        Path(folder, "found.json").write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(measure, (folder,), nprocs=2)
        found = json.loads(Path(folder, "found.json").read_text())
    print("ms of a step: " + ", ".join(f"{name} {value:.1f}" for name, value in found["ms"].items()))
    print(f"2 ranks are {found['speedup']:.2f} times as fast as one, of {found['at most']:.2f} at most")
    print(f"the board costs {found['board']:.1%} of a step")
    print("a pause is shown after {:.2f} s at best, {:.2f} s (median), {:.2f} s at worst".format(*found["seconds until a pause is shown"]))
    if options.json:
        Path(options.json).write_text(json.dumps({"cores": os.cpu_count(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
