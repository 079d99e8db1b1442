"""Microseconds per op on tiny tensors: engine against bare NumPy and, when installed, PyTorch; one process, interleaved, as ratios.

    python benchmarks/overhead.py [--rounds 15] [--json FILE]

Each round times a block of calls of every contestant in turn, so that noise of the machine meets all alike; medians are printed.
"forward" records the tape; "backward" is one whole `.backward()` of a graph of 100 such ops, divided by 100, and "single" the whole call
for a graph of one op, fixed costs included.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from measure import LIBRARIES, arguments, block, heading, interleaved, ratio_text, summary, write_json  # isort: skip

import numpy

import engine
from engine.base import observe

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
PARTS = ("forward", "backward", "single")


def chain(step: Callable, a, b):
    x = a
    for _ in range(DEPTH):
        x = step(x, b)
    return x


def measured(name: str, rounds: int) -> dict[str, dict]:
    """The op in each library: forward, backward of a chain per op, backward of a single op; and NumPy's own time."""
    start = numpy.random.default_rng(0).uniform(0.1, 0.3, (4, 4)).astype(numpy.float32)
    runs: dict[str, dict[str, Callable]] = {"forward": {}, "backward": {}, "single": {}}
    for library, E in LIBRARIES.items():
        a, b = (E.tensor(start.tolist(), requires_grad=True) for _ in range(2))

        runs["forward"][library] = lambda a=a, b=b: OPS[name](a, b)
        for part, out in (("backward", chain(CHAIN[name], a, b)), ("single", OPS[name](a, b))):
            seed = E.ones(tuple(out.shape))
            runs[part][library] = lambda out=out, seed=seed: out.backward(seed, retain_graph=True)
    table = {part: summary(interleaved(contestants, rounds)) for part, contestants in runs.items()}
    table["backward"] = {key: value if key == "ratio" else value / DEPTH for key, value in table["backward"].items()}
    table["forward"]["numpy"] = statistics.median(block(lambda: NUMPY[name](start, start), 2000) for _ in range(rounds))
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

    a, b = (engine.tensor(numpy.ones((4, 4), numpy.float32), requires_grad=True) for _ in range(2))
    added = []
    for _ in range(rounds):
        plain = block(lambda: a + b, 2000)
        with workbench.record():
            watched = block(lambda: a + b, 2000)
        added.append(watched - plain)
    return statistics.median(added)


def main() -> None:
    args = arguments(__doc__, 15)
    print(f"{heading()}; 4x4 float32, us per op")
    columns = " | ".join(f"{part:>9}     torch  ratio" for part in PARTS)
    print(f"{'op':8} {'NumPy':>6} {columns}")
    table = {}
    for name in OPS:
        table[name] = row = measured(name, args.rounds)
        print(f"{name:8} {row['forward']['numpy']:6.2f} {' | '.join(ratio_text(row[part]) for part in PARTS)}", flush=True)
    ratios = {part: statistics.median(row[part]["ratio"] for row in table.values()) for part in PARTS} if "torch" in LIBRARIES else {}
    for part, ratio in ratios.items():
        print(f"median over ops, {part}: {ratio:.2f} x torch")
    check, recording = observer_check(), recording_cost(args.rounds)
    print(f"observer check when nobody watches: {check:.0f} ns; recording adds {recording:.1f} us per op")
    write_json(args.json, {"us": table, "ratios": ratios, "observer_check_ns": check, "recording_us": recording})


if __name__ == "__main__":
    main()
