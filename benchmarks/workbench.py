"""The workbench's back end without a browser: recording, arranging and sending graphs, looking into large tensors.

    python benchmarks/workbench.py [--json FILE]

Milliseconds, best of several runs. The graphs: an LSTM unrolled to 8,000 ops, and a chain of 68,000 scalar ops.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy

import engine
from engine import observe
from workbench import inspector
from workbench.graph import Graph
from workbench.recorder import Recorder


def best(f: Callable, runs: int = 4) -> float:
    """Milliseconds of the quickest of several runs."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        f()
        found.append((time.perf_counter() - start) * 1e3)
    return min(found)


def lstm(steps: int = 500) -> None:
    """16 ops a step."""
    w, u = (engine.ones(8, 32) * 0.1).requires_grad_(), (engine.ones(8, 32) * 0.1).requires_grad_()
    h = c = engine.zeros(4, 8)
    x = engine.ones(4, 8)
    for _ in range(steps):
        gates = x @ w + h @ u
        c = gates[:, 8:16].sigmoid() * c + gates[:, :8].sigmoid() * gates[:, 24:].tanh()
        h = gates[:, 16:24].sigmoid() * c.tanh()


def scalars(n: int = 68_000) -> None:
    """One long chain of scalar ops, as a network of single numbers makes it."""
    x = engine.tensor(0.5, requires_grad=True)
    for _ in range(n // 2):
        x = x * 0.999 + 0.001


def recorded(program: Callable) -> Recorder:
    recorder = Recorder("benchmark")
    with observe.observing(recorder):
        program()
    recorder.stop()
    return recorder


def graph_of(program: Callable) -> dict[str, float]:
    recorders: list[Recorder] = []  # they are kept until the clock has stopped: a cell does not pay for taking them down
    plain, watched = best(program), best(lambda: recorders.append(recorded(program)))
    recorder = recorders.pop()
    recorders.clear()
    rows = recorder.recording.count

    def arrange() -> Graph:
        graph = Graph(recorder.recording)
        graph.finish({})
        return graph

    graph = arrange()
    text = json.dumps(graph.message().to_json())
    return {
        "rows": rows,
        "recording adds, us per op": (watched - plain) * 1e3 / sum(op is not None for op in recorder.recording.ops),
        "arrange, ms": best(arrange),
        "to JSON, ms": best(lambda: json.dumps(graph.message().to_json())),
        "JSON, kB": len(text) / 1e3,
    }


def tensor_of(elements: int = 10_000_000) -> dict[str, float]:
    x = numpy.random.default_rng(0).normal(size=(2500, elements // 2500)).astype(numpy.float32)

    def look(exact: bool) -> None:
        inspector.summary(x)
        inspector.histogram(x, exact)
        inspector.heat(x, [])

    return {"sampled, ms": best(lambda: look(False)), "exact, ms": best(lambda: look(True))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = {"LSTM, 500 steps": graph_of(lstm), "68,000 scalars": graph_of(scalars), "a tensor of 10 M elements": tensor_of()}
    for name, values in found.items():
        print(f"{name}: " + ", ".join(f"{k} {v:.1f}" for k, v in values.items()))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
