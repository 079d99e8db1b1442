"""`make fuzz SECONDS=600`: random programs on PyTorch and on the engine, and what differs, by class."""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from fuzz.generator import Generator  # noqa: E402
from fuzz.minimise import minimised  # noqa: E402
from fuzz.runner import programs  # noqa: E402
from fuzz.session import CLASSES, SILENT, Difference  # noqa: E402

_PART = re.compile(r"(?:T|\bv\d+|\bx|[\])])\.([a-zA-Z_][\w.]*)\(")


def op(line: str) -> str:
    """The names of the ops in a line, those that make its data left out: what a report groups by."""
    names = [name for name in _PART.findall(line) if name not in ("tensor", "zeros", "requires_grad_")]
    return "/".join(dict.fromkeys(names[:3])) or re.sub(r"T\.tensor\(.*?dtype=[\w.]+\)|v\d+", "_", line)[:40]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--programs", type=int, help="how many, at most")
    parser.add_argument("--first", type=int, default=0, help="the first program's seed")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--ops", default="", help="only ops whose name contains this regular expression")
    parser.add_argument("--classes", default=",".join(CLASSES), help="which differences are shown")
    parser.add_argument("--show", type=int, default=20, help="how many groups of differences are shown")
    parser.add_argument("--lines", type=int, default=240, help="how much of a line is shown")
    parser.add_argument("--minimise", action="store_true", help="show the shortest program of each group")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, known, groups, start = Counter(), Counter(), {}, time.monotonic()
    for result in programs(asked.first, asked.seconds, asked.programs, asked.workers, asked.ops):
        counts.update(programs=1, lines=len(result.lines), values=result.values, refusals=result.refusals, lost=result.lost is not None)
        if result.lost:
            print(f"seed {result.seed}: the process died or hung in: {result.lost[: asked.lines]}")
        for found in result.found:
            if (why := found.reason) is not None:
                known[why] += 1
                continue
            counts[found.kind] += 1
            groups.setdefault((found.kind, op(found.line)), []).append((result.seed, found))
    wanted = asked.classes.split(",")
    shown = sorted((g for g in groups.items() if g[0][0] in wanted), key=lambda g: -len(g[1]))[: asked.show]
    for (kind, name), members in shown:
        seed, found = min(members, key=lambda m: len(m[1].line))
        print(f"{len(members)} x {kind} [{name}], seed {seed}")
        program = shortest(seed, found, asked.ops) if asked.minimise else [found.line]
        print("\n".join(f"    {line[: asked.lines]}" for line in program))
        print(f"  {found.told[: 2 * asked.lines]}")
    for why, n in known.most_common():
        print(f"{n} known: {why}")
    print(f"{time.monotonic() - start:.0f} s;", ", ".join(f"{counts[k]} {k}" for k in ("programs", "lines", "values", "refusals", "lost")))
    print(", ".join(f"{counts[kind]} {kind}" for kind in CLASSES))
    print(
        f"{sum(counts[kind] for kind in SILENT)} silent differences; {1 - counts['error type'] / max(1, counts['refusals']):.2%} of refusals of one type"
    )


def shortest(seed: int, found: Difference, ops: str) -> list[str]:
    program = Generator(seed, ops)
    program.run()
    return minimised(program.session.lines, found)


if __name__ == "__main__":
    main()
