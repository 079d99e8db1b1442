"""The workbench's back end without a browser: what recording adds to an op, and how long the answers take that a view waits for.

    python benchmarks/workbench.py [--rounds 9] [--only adds gpt2 ...] [--json FILE]

Recorded and unrecorded runs take turns, and medians of their differences are told, so that noise of the machine meets all alike. Budgets
are held against the time of this thread on a CPU; the clock on the wall, which counts what else the machine does, stands beside it. Set
OPENBLAS_NUM_THREADS=1, or products of matrices run in threads that only the second clock sees. What a program made is kept until the
clocks have stopped: nobody pays for taking it down but the one that did so anyway.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import networks

import engine
import programs
from engine.base import observe
from workbench import memory_use
from workbench.graph import timing
from workbench.graph.graph import Graph
from workbench.profiling import answers as times
from workbench.protocol import VERSION, AskTiming
from workbench.protocol.pack import pack
from workbench.recording.recorder import Recorder
from workbench.recording.recording import Recording
from workbench.session.session import Session
from workbench.training.loop import Loop
from workbench.training.progress import Track

STEPS = 8  # of a training: the first ones, all of which are recorded
BUDGETS = {  # of the issue: microseconds an op, milliseconds a view waits
    "recording, us an op": 5.0,  # 3 for the additions
    "recording, us an op and its end": 5.0,
    "recording, us a backward step": 5.0,
    "arrange and JSON, ms": 1000.0,  # 2000 for the scalars
    "memory, ms": 500.0,
    "times, ms": 500.0,
    "sampled, ms": 100.0,
    "exact, ms": 300.0,
    "a turn, us": 20.0,  # 2 % of a loop of a millisecond
}
SHARE = 95.0  # percent of its speed that a training keeps from the first step, of those that take 5 ms or more


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
        "  as a view states it, us an op": timing.calibrated()[0] * 1e6,
        "  as a view states it, us a backward step": timing.calibrated()[1] * 1e6,
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


def reporting(rounds: int) -> dict[str, float | Time]:
    """What a turn of a loop costs in `wb.progress`, with two values reported."""
    turns = 20_000

    def run() -> None:
        for i in (track := Track(range(turns), file=io.StringIO())):
            track.report(loss=i, accuracy=i)

    found = medians([seconds(run)[0] for _ in range(rounds)])
    return {"a turn, us": Time(found.cpu / turns * 1e6, found.wall / turns * 1e6)}


def viewed(recording: Recording) -> Session:
    """A session that an open panel shows: its messages are turned into bytes, as the kernel does before it sends them."""

    def send(message: dict[str, Any], buffers: list[bytes]) -> None:
        json.dumps(pack(message, buffers)[0]).encode()

    session = Session(recording)
    session.graph.finish()
    session.connect(send).receive({"type": "ready", "v": VERSION, "id": 0})
    return session


def recorded(step: Callable, view: bool) -> Callable[[], None]:
    """The steps in a recording; with a view, as `%%watch` makes it while the panel is open."""
    recorder = Recorder("benchmark")
    if view:
        recorder.listener = viewed(recorder.recording).update

    def run() -> None:
        with observe.observing(recorder):
            for _ in range(STEPS):
                step()
        recorder.stop()

    return run


def played(step: Callable) -> Callable[[], None]:
    """The steps in `wb.loop`, which plays while its view is open."""
    loop = Loop(range(STEPS), (), viewed(Recording()), lambda loop: None, dict)
    loop.wish("play")

    def run() -> None:
        for _ in loop:
            step()

    return run


def training(make: Callable[[Any], tuple], rounds: int) -> dict[str, float | Time]:
    """What a training keeps of its speed in its first steps, in percent: recorded, watched with the panel open, and in `wb.loop`."""
    engine.manual_seed(0)
    model, *batch = make(engine)
    optimizer = engine.optim.Adam(model.parameters(), lr=1e-3)
    step = networks.stepper(engine, model, *map(engine.from_numpy, batch), optimizer)

    def plainly() -> None:
        for _ in range(STEPS):
            step()

    ways: dict[str, Callable[[], Callable[[], None]]] = {
        "recorded": lambda: recorded(step, view=False),
        "watched with the panel open": lambda: recorded(step, view=True),
        "in wb.loop, playing": lambda: played(step),
    }
    for way in ways.values():  # modules are imported
        way()()
    shares: dict[str, list[Time]] = {name: [] for name in ways}
    plain = []
    for _ in range(rounds):
        plain.append(seconds(plainly)[0])
        for name, way in ways.items():
            found, _ = seconds(way())
            shares[name].append(Time(100 * plain[-1].cpu / found.cpu, 100 * plain[-1].wall / found.wall))
    ms = medians(plain)
    told: dict[str, float | Time] = {"a step, ms": Time(ms.cpu / STEPS * 1e3, ms.wall / STEPS * 1e3)}
    return told | {f"share of speed {name}, %": medians(found) for name, found in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    measures: dict[str, tuple[str, Callable[[], dict[str, float | Time]]]] = {
        "adds": ("a chain of 4x4 additions", lambda: recording_of(programs.small_adds, args.rounds)),
        "lstm": ("LSTM, 500 steps", lambda: recording_of(programs.lstm, args.rounds)),
        "gpt2": ("GPT-2 XL's graph", lambda: recording_of(programs.Gpt2Step(), args.rounds)),
        "scalars": ("68,138 scalars", lambda: recording_of(programs.scalars, args.rounds)),
        "tensor": ("a tensor of 10 M elements", lambda: tensor_of(10_000_000, args.rounds)),
        "progress": ("wb.progress", lambda: reporting(args.rounds)),
        "mlp": ("training an MLP", lambda: training(networks.mlp, args.rounds)),
        "cnn": ("training a CNN", lambda: training(networks.cnn, args.rounds)),
        "gpt": ("training a GPT", lambda: training(networks.gpt, args.rounds)),
    }
    parser.add_argument("--only", nargs="*", choices=measures, default=list(measures))
    args = parser.parse_args()
    found: dict[str, dict[str, float | Time]] = {}
    over = []
    for which in args.only:
        name, measure = measures[which]
        values = found[name] = measure()
        print(name)
        for what, value in values.items():
            budget = BUDGETS.get(what, 0.0) * (2 if "scalars" in name and what.startswith("arrange") else 1)
            cpu = value.cpu if isinstance(value, Time) else value
            wall = f"   wall {value.wall:10.1f}" if isinstance(value, Time) else ""
            if what == "recording, us an op" and "additions" in name:
                budget = 3.0
            if what.startswith("share"):
                budget = SHARE
            print(f"  {what:50} {cpu:10.1f}{wall}" + (f"   of {budget:g}" if budget else ""), flush=True)
            if budget and (cpu < budget if what.startswith("share") else cpu > budget):
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
