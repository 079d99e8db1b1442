"""Time of collectives beside PyTorch's gloo and raw MPI: `python benchmarks/collectives.py [--json FILE] [--ranks 2 4]`.

All three run in the same processes, one after the other, in turns; the medians of rank 0 are shown in microseconds. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import engine
import engine.distributed as dist
from engine import multiprocessing as mp
from engine.distributed.mpi import mpi

SIZES = 4, 1 << 10, 32 << 10, 1 << 20, 16 << 20, 64 << 20  # bytes


def timed(fn: Callable[[], object]) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def measure(rank: int, world: int, folder: str, sizes: list[int]) -> None:
    import torch
    import torch.distributed as gloo

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/ours", timedelta(seconds=120), world, rank)
    gloo.init_process_group("gloo", f"file://{folder}/gloo", timedelta(seconds=120), world, rank)
    raw = mpi().COMM_WORLD.Dup()
    found = {}
    for size in sizes:
        ours, theirs = engine.ones(size // 4), torch.ones(size // 4)
        a, b = numpy.ones(size // 4, numpy.float32), numpy.empty(size // 4, numpy.float32)
        calls = {
            "engine": lambda x=ours: dist.all_reduce(x),
            "gloo": lambda x=theirs: gloo.all_reduce(x),
            "mpi": lambda a=a, b=b: raw.Allreduce(a, b),
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(150 if size <= 1 << 16 else 40 if size <= 1 << 20 else 9):
            for name, call in calls.items():
                raw.Barrier()
                times[name].append(timed(call))
            for x in (ours, theirs):
                x.fill_(1)
        found[size] = {name: 1e6 * statistics.median(values[2:]) for name, values in times.items()}
    gloo.destroy_process_group()
    dist.destroy_process_group()
    if rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--json")
    options = parser.parse_args()
    results = {}
    for world in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(measure, (world, folder, options.sizes), nprocs=world)
            results[world] = json.loads(Path(folder, "found.json").read_text())
        print(f"all_reduce, {world} ranks, medians in us\n{'bytes':>12}{'engine':>12}{'gloo':>12}{'raw MPI':>12}   of gloo   of MPI")
        for size, us in results[world].items():
            ours, ratios = us["engine"], [us["engine"] / us[other] for other in ("gloo", "mpi")]
            print(f"{size:>12}{ours:>12.1f}{us['gloo']:>12.1f}{us['mpi']:>12.1f}{ratios[0]:>10.2f}{ratios[1]:>9.2f}")
    if options.json:
        facts = {"cores": os.cpu_count(), "numpy": numpy.__version__, "mpi": mpi().Get_library_version().split(",")[0]}
        Path(options.json).write_text(json.dumps({"machine": facts, "all_reduce": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
