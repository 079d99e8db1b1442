"""What the flight recorder costs while nothing happens, and what it gives when something does, on models of 10 M parameters.

    python benchmarks/flight.py [--rounds 5] [--only mlp gpt resnet18] [--json FILE]

The same training runs with and without the recorder, in turn in one process; the ratio is of the time per step. Memory is what the process
has of its own (RssAnon), in units of the parameters' bytes. Then a NaN is put into the last batch: the size of the file, in units of
parameters, optimizer state and batch; the seconds to open it, and from there to the findings of the repeated step, beyond the step itself.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from measure import CLOCK, LIBRARIES, arguments, heading, write_json  # isort: skip

import statistics

import networks  # after `measure`, which comes before NumPy

import workbench as wb

MODELS: dict[str, Callable[[Any], tuple]] = {
    "mlp": lambda E: networks.mlp(E, 256, 2600),
    "gpt": lambda E: networks.gpt(E, 8, 128, 384, 6, 6),
    "resnet18": lambda E: networks.resnet18(E),
}
BLOCK, FEWEST, MOST = 3.0, 4, 60  # seconds and steps of a block


def own_bytes() -> int:
    """Memory of the process that no file is behind."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


class Training:
    """A training whose batches can be spoilt, with a recorder if there is a path."""

    def __init__(self, E: Any, make: Callable[[Any], tuple], path: str = "") -> None:
        E.manual_seed(0)
        self.E, self.path = E, path
        self.model, x, y = make(E)
        self.optimizer = E.optim.Adam(self.model.parameters(), lr=1e-4)
        self.x, self.y = E.from_numpy(x), E.from_numpy(y)
        self.spoil = -1
        self.flight: Any = None

    def batches(self, n: int) -> Iterator[tuple]:
        for i in range(n):
            yield self.x, self.y, float("nan") if i == self.spoil else 1.0

    def run(self, n: int) -> float:
        """Train for n steps; seconds per step."""
        recorder: Any = wb.flight(self.model, self.optimizer, path=self.path) if self.path and self.flight is None else self.flight
        times = []
        with recorder or contextlib.nullcontext():
            self.flight = recorder
            begun = CLOCK()
            for x, y, weight in recorder(self.batches(n)) if recorder else self.batches(n):
                self.optimizer.zero_grad()
                loss = self.E.nn.functional.cross_entropy(self.model(x), y) * weight
                loss.backward()
                self.optimizer.step()
                times.append(CLOCK() - begun)
        return times[-1] / n


def main() -> None:
    args = arguments(__doc__, 5, only={"nargs": "*", "default": list(MODELS)})
    print(heading())
    print("model        library  M params  ms/step   ratio  memory    file  open s  found s")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            for library, E in LIBRARIES.items():
                found = measured(E, MODELS[name], str(Path(folder, "run.flight")), args.rounds)
                results[f"{name} {library}"] = found
                print(
                    f"{name:12} {library:8} {found['parameters'] / 1e6:8.1f} {found['step'] * 1e3:8.1f} {found['ratio']:7.3f} "
                    f"{found['memory']:7.2f} {found['file']:7.2f} {found['open']:7.2f} {found['found']:8.2f}",
                    flush=True,
                )
    write_json(args.json, results)


def measured(E: Any, make: Callable[[Any], tuple], path: str, rounds: int) -> dict[str, Any]:
    """The figures of one model in one library."""
    plain, recorded = Training(E, make), Training(E, make, path)
    for one in (plain, recorded):
        one.run(2)
    n = min(MOST, max(FEWEST, int(BLOCK / plain.run(2))))
    recorded.flight = None
    before = own_bytes()
    ratios, times = [], []
    for turn in range(rounds):
        pair = {}
        for one in (plain, recorded) if turn % 2 else (recorded, plain):
            pair[one] = one.run(n)
        ratios.append(pair[recorded] / pair[plain])
        times.append(pair[plain])
    size = sum(p.nbytes for p in recorded.model.parameters())
    memory = (own_bytes() - before) / size
    state = sum(x.nbytes for s in recorded.optimizer.state.values() for x in s.values() if hasattr(x, "nbytes"))
    batch = recorded.x.nbytes + recorded.y.nbytes
    recorded.spoil = n - 1
    recorded.run(n)
    begun = perf_counter()
    opened = wb.open(path)
    read = perf_counter() - begun
    again = Training(E, make, path)
    begun = perf_counter()
    repeated = opened.repeat(program=lambda: again.run(n))
    findings = wb.check(repeated).findings
    took = perf_counter() - begun
    assert repeated.same, repeated.differs
    assert findings and findings[0].severity == "error"
    step = statistics.median(times)
    return {
        "parameters": size / 4, "step": step, "ratio": statistics.median(ratios), "ratios": ratios, "memory": memory,
        "file": Path(path).stat().st_size / (size + state + batch), "open": read, "found": took - step,
    }  # fmt: skip


if __name__ == "__main__":
    main()
