"""Many programs side by side on worker processes, which may die of what PyTorch does with some arguments."""

from __future__ import annotations

import math
import multiprocessing
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from fuzz.session import Difference

PATIENCE = 20.0  # seconds that one program may take
ROUND = 25  # programs that a worker is given at a time


@dataclass
class Result:
    """What came of one program."""

    seed: int
    lines: list[str] = field(default_factory=list)
    values: int = 0
    refusals: int = 0
    found: list[Difference] = field(default_factory=list)
    lost: str | None = None  # the line during which the process died or hung


def run(seed: int, place: Any = None, ops: str = "") -> Result:
    """Draws and runs the program of a seed. `place` is told each line before it runs."""
    from fuzz.generator import Generator

    program = Generator(seed, ops)
    if place is not None:
        program.session.tell = lambda line: setattr(place, "value", line.encode()[:2000])
    found = program.run()
    session = program.session
    return Result(seed, session.lines, session.values, session.refusals, found)


def _work(connection: Connection, seed: Any, place: Any, ops: str) -> None:
    import torch
    from fuzz.signatures import sampled, signatures

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signatures(ops)  # what every program draws from takes longer to read than a program
    sampled(ops)
    while (seeds := connection.recv()) is not None:
        results = []
        for one in seeds:
            seed.value = one
            results.append(run(one, place, ops))
        connection.send(results)


class _Worker:
    """One process and what it is at."""

    def __init__(self, context: Any, ops: str) -> None:
        self.ours, theirs = context.Pipe()
        self.seed, self.place = context.Value("q", -1), context.Array("c", 2001)
        self.process = context.Process(target=_work, args=(theirs, self.seed, self.place, ops), daemon=True)
        self.process.start()
        theirs.close()
        self.seeds: list[int] = []
        self.since, self.at = math.inf, -1  # a program's time begins with it, not while the library is imported

    def give(self, seeds: list[int]) -> None:
        self.seeds, self.since, self.at = seeds, math.inf, self.seed.value
        self.ours.send(seeds)

    def stuck(self) -> bool:
        """Whether the program that it is at has taken too long."""
        if self.seed.value != self.at:
            self.at, self.since = self.seed.value, time.monotonic()
        return time.monotonic() - self.since > PATIENCE

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.ours.close()


def programs(first: int, seconds: float, count: int | None = None, workers: int | None = None, ops: str = "") -> Iterator[Result]:
    """The results of the programs from seed `first` on, as they come, until the time is over or `count` have been run."""
    context = multiprocessing.get_context("spawn")
    until, end = time.monotonic() + seconds, None if count is None else first + count
    following = first

    def more() -> list[int]:
        nonlocal following
        if time.monotonic() > until:
            return []
        stop = following + ROUND if end is None else min(following + ROUND, end)
        seeds, following = [*range(following, stop)], stop
        return seeds

    team: list[_Worker] = []
    for _ in range(workers or multiprocessing.cpu_count()):
        if seeds := more():
            team.append(_Worker(context, ops))
            team[-1].give(seeds)
    try:
        while team:
            ready = wait([w.ours for w in team], timeout=1)
            for i, worker in reversed([*enumerate(team)]):
                done: list[Result] | None = None
                try:
                    if worker.ours in ready:
                        done = worker.ours.recv()
                except (EOFError, ConnectionResetError):  # it has died
                    pass
                if done is not None:
                    yield from done
                    rest = more()
                elif worker.ours in ready or worker.stuck():
                    at = worker.seed.value if worker.seed.value in worker.seeds else worker.seeds[0]
                    yield Result(at, lost=worker.place.value.decode())
                    left = worker.seeds[worker.seeds.index(at) + 1 :]
                    worker.end()
                    team[i] = worker = _Worker(context, ops)
                    rest = left or more()
                else:
                    continue
                if rest:
                    worker.give(rest)
                else:
                    worker.end()
                    team.pop(i)
    finally:
        for worker in team:
            worker.end()
