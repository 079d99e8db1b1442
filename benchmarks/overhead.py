"""Microseconds per op on tiny tensors: engine against bare NumPy and, when installed, PyTorch; one process, interleaved, as ratios.

    python benchmarks/overhead.py [--rounds 15] [--json FILE]

Each round times a block of calls of every contestant in turn, so that noise of the machine meets all alike; medians are printed.
"forward" records the tape; "backward" is one whole `.backward()` of a graph of 100 such ops, divided by 100, and "single" the whole call
for a graph of one op, fixed costs included.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

REMOVED = {k: os.environ.pop(k) for k in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if k in os.environ}  # they slow NumPy's GEMM
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy  # noqa: E402

import engine  # noqa: E402
from engine import observe  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

OPS: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b,
    "sum": lambda a, b: a.sum(),
    "tanh": lambda a, b: a.tanh(),
    "getitem": lambda a, b: a[1],
}
NUMPY: dict[str, Callable] = {**OPS, "tanh": lambda a, b: numpy.tanh(a)}
CHAIN: dict[str, Callable] = {  # the same op 100 times over, each on the last result
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b,
    "sum": lambda a, b: a + b.sum(),
    "tanh": lambda a, b: a.tanh(),
    "getitem": lambda a, b: a + b[1],
}
DEPTH = 100


def block(f: Callable, n: int) -> float:
    """Microseconds per call over a block of n calls."""
    start = time.perf_counter()
    for _ in range(n):
        f()
    return (time.perf_counter() - start) / n * 1e6


def chain(step: Callable, a, b):
    x = a
    for _ in range(DEPTH):
        x = step(x, b)
    return x


def measure(rounds: int) -> dict:
    start = numpy.random.default_rng(0).uniform(0.1, 0.3, (4, 4)).astype(numpy.float32)
    ours = [engine.Tensor(start.copy(), requires_grad=True) for _ in range(2)]
    theirs = [torch.tensor(start, requires_grad=True) for _ in range(2)] if torch else None
    if torch:
        torch.set_num_threads(1)
    table: dict = {}
    for name, op in OPS.items():
        runs: dict[str, list[float]] = {}

        def note(key: str, value: float, runs: dict = runs) -> None:
            runs.setdefault(key, []).append(value)

        for _ in range(rounds):
            note("numpy forward", block(lambda: NUMPY[name](start, start), 2000))
            note("engine forward", block(lambda: op(*ours), 2000))
            if theirs:
                note("torch forward", block(lambda: op(*theirs), 2000))
            for who, pair in (("engine", ours), ("torch", theirs)):
                if pair is None:
                    continue
                out = chain(CHAIN[name], *pair)
                seed = (engine.Tensor(numpy.ones_like(start)) if who == "engine" else torch.ones(4, 4)) if out.ndim else None
                note(f"{who} backward", block(lambda: out.backward(seed, retain_graph=True), 8) / DEPTH)
                one = op(*pair)
                seed1 = engine.Tensor(numpy.ones_like(one.detach().numpy())) if who == "engine" else torch.ones_like(one)
                note(f"{who} single", block(lambda: one.backward(seed1, retain_graph=True), 400))
        table[name] = {key: statistics.median(v) for key, v in runs.items()}
    return table


def observer_check() -> float:
    """Nanoseconds of `if observe.current is not None` when nobody watches, the loop's own cost taken off."""

    def checked(n: int) -> float:
        t = time.perf_counter()
        for _ in range(n):
            if observe.current is not None:
                raise AssertionError
        return time.perf_counter() - t

    def bare(n: int) -> float:
        t = time.perf_counter()
        for _ in range(n):
            pass
        return time.perf_counter() - t

    n = 1_000_000
    return statistics.median((checked(n) - bare(n)) / n * 1e9 for _ in range(7))


def recording_cost(rounds: int) -> float | None:
    """Microseconds that `workbench.record()` adds to one add on 4x4 tensors."""
    import workbench

    a, b = (engine.Tensor(numpy.ones((4, 4), numpy.float32), requires_grad=True) for _ in range(2))
    added = []
    for _ in range(rounds):
        plain = block(lambda: a + b, 2000)
        with workbench.record():
            watched = block(lambda: a + b, 2000)
        added.append(watched - plain)
    return statistics.median(added)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    table = measure(args.rounds)
    print(
        f"Python {sys.version.split()[0]}, NumPy {numpy.__version__}, torch {torch.__version__ if torch else 'not installed'}, 4x4 float32, us per op"
    )
    if REMOVED:
        print(f"unset for this run: {REMOVED}")
    print(
        f"{'op':8} {'NumPy':>7} {'engine':>7} {'torch':>7} {'/torch':>7} | {'bwd':>7} {'torch':>7} {'/torch':>7} | {'single':>7} {'torch':>7} {'/torch':>7}"
    )
    for name, row in table.items():
        cells = [f"{row['numpy forward']:7.2f}"]
        for part in ("forward", "backward", "single"):
            e, t = row[f"engine {part}"], row.get(f"torch {part}")
            cells.append(f"{e:7.2f} {t:7.2f} {e / t:7.2f}" if t else f"{e:7.2f} {'-':>7} {'-':>7}")
        print(f"{name:8} {cells[0]} {' | '.join(cells[1:])}")
    ratios = {}
    if torch:
        for part in ("forward", "backward", "single"):
            ratios[part] = statistics.median(r[f"engine {part}"] / r[f"torch {part}"] for r in table.values())
            print(f"median over ops, {part}: {ratios[part]:.2f} x torch")
    check, recording = observer_check(), recording_cost(args.rounds)
    print(f"observer check when nobody watches: {check:.0f} ns; recording adds {recording:.1f} us per op")
    if args.json:
        args.json.write_text(
            json.dumps({"us": table, "ratios": ratios, "observer_check_ns": check, "recording_us": recording}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
