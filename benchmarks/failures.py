"""Trainings on four processes in which one is killed, stopped or raises: `python benchmarks/failures.py [--kills 100] [--json FILE]`.

In each training one process, drawn at random, fails in a step drawn at random, before, inside or after its collectives. The others must go
on within the time-out and 2 seconds, and end with the parameters of one process that has seen the same samples, to 1e-12 in float64. Then
10,000 steps without failures show whether the memory of each process stays flat. What is left out, as with `--kills 0`, stays in the file.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "engine")]

from elastic_training import EPOCHS, STEPS, checked, ended, started, train  # noqa: E402

WORLD, TIMEOUT, MORE = 4, 4.0, 2.0  # seconds: the time-out of a collective, and what recovery may take beyond it
PLACES = "before", "inside", "after"  # of the collectives of a step


def survived(how: str, draw: random.Random) -> dict:
    """Train with one failure; return what was drawn and how it went. Raises AssertionError if the others have not trained on correctly."""
    failure = draw.randrange(WORLD), draw.randrange(STEPS), how, draw.choice(PLACES)
    with tempfile.TemporaryDirectory() as folder:
        results = train(Path(folder), WORLD, failures=[failure], seconds=TIMEOUT, on_error="continue")
        assert results.keys() == {*range(WORLD)} - {failure[0]}, (failure, sorted(results))
        assert all((r["ranks"], r["recoveries"], r["error"]) == (WORLD - 1, 1, None) for r in results.values()), (failure, results)
        difference, longest = checked(Path(folder), results), max(r["longest"] for r in results.values())
    assert difference < 1e-12, (failure, difference)
    assert longest < TIMEOUT + MORE, (failure, longest)
    return {"failure": failure, "difference": difference, "longest_step_s": longest}


def memory(steps: int) -> dict[str, list[int]]:
    """Return the bytes of each process after 10 %, 50 % and 100 % of the steps. Raises AssertionError if they grow by more than 2 %."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        results = ended(path, started(path, WORLD, epochs=steps * EPOCHS // STEPS), limit=3600)
    assert results.keys() == {*range(WORLD)} and all(r["error"] is None for r in results.values())
    noted = [result["memory"] for result in results.values()]
    found = {f"{share} %": [rank[len(rank) * share // 100 - 1] for rank in noted] for share in (10, 50, 100)}
    assert all(last < 1.02 * first for first, last in zip(found["10 %"], found["100 %"], strict=True)), found
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, n in (("kills", 100), ("stops", 20), ("raises", 20), ("steps", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=n)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    results: dict = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    results |= {"processes": WORLD, "timeout_s": TIMEOUT, "seed": options.seed}
    for how, n in (("kill", options.kills), ("stop", options.stops), ("raise", options.raises)):
        runs = []
        for i in range(n):
            runs.append(survived(how, draw))
            print(f"{how} {i + 1} of {n}: {runs[-1]}", flush=True)
        times = [run["longest_step_s"] for run in runs]
        if runs:
            results[how] = {
                "trainings": n,
                "median_s": statistics.median(times),
                "longest_s": max(times),
                "largest_difference": max(run["difference"] for run in runs),
            }
    if options.steps:
        results["memory"] = {"steps": options.steps, "bytes_by_rank": memory(options.steps)}
    print(json.dumps(results, indent=1))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
