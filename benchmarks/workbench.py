"""The workbench's back end without a browser: what recording adds to an op, and how long the answers take that a view waits for.

    python benchmarks/workbench.py [--rounds 9] [--json FILE]

Recorded and unrecorded runs take turns, and medians of their differences are told, so that noise of the machine meets all alike. Budgets
are held against the time of this thread on a CPU; the clock on the wall, which counts what else the machine does, stands beside it. Set
OPENBLAS_NUM_THREADS=1, or products of matrices run in threads that only the second clock sees. What a program made is kept until the
clocks have stopped: nobody pays for taking it down but the one that did so anyway.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import engine
import programs
from engine.base import observe
from workbench import memory_use
from workbench.graph import timing
from workbench.graph.graph import Graph
from workbench.profiling import answers as times
from workbench.protocol import AskTiming
from workbench.recording.recorder import Recorder
from workbench.session.session import Session

BUDGETS = {  # of the issue: microseconds an op, milliseconds a view waits
    "recording, us an op": 5.0,
    "recording, us an op and its end": 5.0,
    "recording, us a backward step": 5.0,
    "arrange and JSON, ms": 1000.0,  # 2000 for the scalars
    "memory, ms": 500.0,
    "times, ms": 500.0,
    "sampled, ms": 100.0,
    "exact, ms": 300.0,
}


class Time(NamedTuple):
    """How long something took: seconds of this thread on a CPU, and on the wall; or those in another unit."""

    cpu: float
    wall: float


def seconds(f: Callable) -> tuple[Time, Any]:
    """How long a call takes, and what it gave."""
    gc.collect()
    cpu, wall = time.thread_time(), time.perf_counter()
    out = f()
    return Time(time.thread_time() - cpu, time.perf_counter() - wall), out


def medians(found: list[Time]) -> Time:
    return Time(*map(statistics.median, zip(*found, strict=True)))


def median_ms(f: Callable, rounds: int) -> Time:
    found = medians([seconds(f)[0] for _ in range(rounds)])
    return Time(found.cpu * 1e3, found.wall * 1e3)


def difference(watched: Time, plain: Time, parts: int) -> Time:
    """Microseconds that each part of the watched took more."""
    return Time((watched.cpu - plain.cpu) / parts * 1e6, (watched.wall - plain.wall) / parts * 1e6)


def added(program: Callable, rounds: int, until: Callable = lambda out: out) -> Time:
    """Microseconds that recording adds to each op of a program, `until` included, which may take down what was made."""
    found = []
    for _ in range(rounds):
        plain, out = seconds(lambda: until(program()))
        del out
        recorder = Recorder("benchmark")
        with observe.observing(recorder):
            watched, out = seconds(lambda: until(program()))
        recorder.stop()
        del out
        found.append(difference(watched, plain, sum(op is not None for op in recorder.recording.ops)))
    return medians(found)


def added_to_steps(program: Callable, rounds: int) -> Time:
    """Microseconds that recording adds to each step of a program's backward pass."""
    found = []
    for _ in range(rounds):
        plain, _ = seconds(program().backward)
        recorder = Recorder("benchmark")
        with observe.observing(recorder):
            watched, _ = seconds(program().backward)
        recorder.stop()
        found.append(difference(watched, plain, len(recorder.recording.steps)))
    return medians(found)


def recording_of(program: Callable, rounds: int) -> dict[str, float | Time]:
    """What it costs to record the program, and what a view waits for after it."""
    one = added(program, rounds)
    dying = added(program, rounds, lambda out: None)
    recorder = Recorder("benchmark")
    with observe.observing(recorder):
        program().backward()
    r = recorder.stop()

    def arranged() -> str:
        graph = Graph(r)
        graph.finish({})
        return json.dumps(graph.message().to_json())

    graph = Graph(r)
    graph.finish({})
    return {
        "rows": r.count,
        "ops": sum(op is not None for op in r.ops),
        "recording, us an op": one,
        "recording, us an op and its end": dying,
        "recording, us a backward step": added_to_steps(program, rounds),
        "arrange and JSON, ms": median_ms(arranged, 3),
        "JSON, kB": len(arranged()) / 1e3,
        "memory, ms": median_ms(lambda: memory_use.answer(r, None, graph), 3),
        "memory events": len(r.events) // 3,
        "times, ms": median_ms(lambda: times.told(timing.Times(r), graph, AskTiming(1)), 3),
    }


def tensor_of(elements: int, rounds: int) -> dict[str, float | Time]:
    """A look into a large tensor, as the view asks for it."""
    recorder = Recorder("benchmark", keep=1 << 30)
    with observe.observing(recorder):
        x = engine.randn(elements // 2500, 2500) * 2
    session = Session(recorder.stop())
    row = recorder.recording.find(x)

    def look(exact: bool) -> None:
        ((answer, _),) = session.handle({"type": "inspect", "v": 1, "id": 1, "node": row, "exact": exact})
        assert answer["type"] == "inspected", answer

    return {"sampled, ms": median_ms(lambda: look(False), rounds), "exact, ms": median_ms(lambda: look(True), rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[str, dict[str, float | Time]] = {}
    for name, program in (
        ("a chain of 4x4 additions", programs.small_adds),
        ("LSTM, 500 steps", programs.lstm),
        ("GPT-2 XL's graph", programs.Gpt2Step()),
        ("68,138 scalars", programs.scalars),
    ):
        found[name] = recording_of(program, args.rounds)
    found["a tensor of 10 M elements"] = tensor_of(10_000_000, args.rounds)
    over = []
    for name, values in found.items():
        print(name)
        for what, value in values.items():
            budget = BUDGETS.get(what, 0.0) * (2 if "scalars" in name and what.startswith("arrange") else 1)
            cpu = value.cpu if isinstance(value, Time) else value
            wall = f"   wall {value.wall:10.1f}" if isinstance(value, Time) else ""
            print(f"  {what:34} {cpu:10.1f}{wall}" + (f"   of {budget:g}" if budget else ""))
            if budget and cpu > budget:
                over.append(f"{name}: {what} {cpu:.1f}, budget {budget:g}")
    print("over budget: " + "; ".join(over) if over else "all within their budgets")
    if args.json:
        told = {
            name: {what: value._asdict() if isinstance(value, Time) else value for what, value in values.items()}
            for name, values in found.items()
        }
        args.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
