"""Whole training steps as one program of XLA: `engine.compile(step)` beside the eager step and PyTorch's. Milliseconds per step.

    python benchmarks/compile.py [--rounds 7] [--only mlp cnn lstm gpt] [--json FILE]

BENCHMARK_THREADS=2 gives NumPy and PyTorch two threads; XLA takes as many as the process may use, so one thread is
`taskset -c 0 python benchmarks/compile.py`. Before anything is timed, the losses of 20 steps must agree with the eager ones.
"""

from __future__ import annotations

import math
import time
from typing import Any

from measure import LIBRARIES, arguments, heading, interleaved, write_json  # isort: skip

import statistics

from training import MODELS, training

import engine


def compiled_step(name: str) -> tuple[Any, float]:
    """The compiled step, and the CPU seconds of the call that compiled it. AssertionError if its losses are not those of the eager step."""
    eager, step = training(engine, MODELS[name]), engine.compile(training(engine, MODELS[name]), fullgraph=True)
    seconds = 0.0
    for i in range(20):
        start = time.process_time()
        found, expected = step().item(), eager().item()
        seconds = time.process_time() - start if i == 1 else seconds
        if not math.isclose(found, expected, rel_tol=1e-3):
            raise AssertionError(f"{name}: the loss of step {i} is {found} compiled, {expected} eager")
    return step, seconds


def main() -> None:
    args = arguments(__doc__, 7, only={"nargs": "*", "default": list(MODELS)})
    print(heading())
    print(f"{'ms per step':12}{'compiled':>10}{'eager':>10}{'torch':>10}   to eager   to torch   compiled in (CPU s)")
    results = {}
    for name in args.only:
        step, seconds = compiled_step(name)
        contestants = {"compiled": step, **{library: training(E, MODELS[name]) for library, E in LIBRARIES.items()}}
        found = interleaved(contestants, args.rounds, 200.0)
        row: dict[str, float] = {key: statistics.median(times) for key, times in found.items()} | {"compile_seconds": seconds}
        for other in LIBRARIES:
            row[f"to_{other}"] = statistics.median(a / b for a, b in zip(found["compiled"], found[other], strict=True))
        results[name] = row
        torch = f"{row['torch'] / 1e3:10.2f}" if "torch" in row else " " * 10
        ratio = f"{row['to_torch']:11.2f}" if "to_torch" in row else " " * 11
        print(
            f"{name:12}{row['compiled'] / 1e3:10.2f}{row['engine'] / 1e3:10.2f}{torch}{row['to_engine']:11.2f}{ratio}{seconds:12.1f}",
            flush=True,
        )
    write_json(args.json, results)


if __name__ == "__main__":
    main()
