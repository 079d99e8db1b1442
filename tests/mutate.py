"""Breaks the code at random places, one at a time, and tells which tests notice: whether the suite can fail.

    python tests/mutate.py                         40 mutations, asked of the quick tests, then of the others
    python tests/mutate.py --only 3,17 --seed 2    these of another choice

A mutation is a change of one expression or statement of `engine` or `workbench` that leaves a program: a comparison, a sign, a condition, a
number, a returned value, a call whose result nobody uses. Each is made in a copy of the checkout. What it prints ends with the score.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# Code that runs with a GPU, under PyTorch, or on another system only: nothing here could notice.
ELSEWHERE = ("engine/backends/cudnn.py", "engine/backends/gpu/runtime.py", "engine/cuda/", "workbench/torch_models/")
COMPARISONS = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
# What `make quick` asks of pytest, and what `make test` asks more: in one process for a mutation.
RUNS = {
    "quick": ["tests", "-m", "not torch and not long and not slow", "--ignore", "tests/browser"],
    "slow": ["tests", "-m", "slow and not torch and not long", "--ignore", "tests/browser"],
    "browser": ["tests/browser", "-m", "not torch and not long"],
}
LIMIT = 3600.0  # seconds for one run


class Mutation(NamedTuple):
    """A change of one place."""

    path: str
    line: int
    before: str
    after: str
    text: str  # the whole file afterwards

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before[:70]}  ->  {self.after[:70]}"


def mutants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators)
        case ast.BinOp(op=op) if type(op) in OPERATORS and not isinstance(node.left, (ast.Constant, ast.JoinedStr)):
            yield ast.BinOp(node.left, OPERATORS[type(op)](), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.If() | ast.IfExp():
            other = copy.copy(node)
            other.test = ast.UnaryOp(ast.Not(), node.test)
            yield other
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()


def spoken(node: ast.AST) -> bool:
    """Whether it is there for people or for types, and not for what the program does."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert, ast.AnnAssign)):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("warn", "RuntimeError", "ValueError", "TypeError"))


def sites(node: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """The nodes of functions that can be changed."""
    for child in ast.iter_child_nodes(node):
        if spoken(child):
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in child.body:
                yield from sites(ast.Module([statement], []), True)
            continue
        if inside and any(True for _ in mutants(child)):
            yield child
        yield from sites(child, inside)


def all_sites() -> list[tuple[str, int]]:
    """Every place: a file, and the number of the site in it."""
    found = []
    for package in ("engine", "workbench"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(ELSEWHERE) and "/lessons/" not in name:
                found += [(name, n) for n, _ in enumerate(sites(ast.parse(path.read_text(encoding="utf-8"))))]
    return found


def mutation(path: str, number: int) -> Mutation:
    """The change of one site: only its own lines differ."""
    text = (ROOT / path).read_text(encoding="utf-8")
    node = list(sites(ast.parse(text)))[number]
    after = ast.unparse(ast.fix_missing_locations(next(mutants(node))))
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset  # ast counts bytes
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    before = text.encode()[start:end].decode()
    after = after.replace("\n", "\n" + " " * node.col_offset) if isinstance(node, ast.stmt) else f"({after})"
    changed = (text.encode()[:start] + after.encode() + text.encode()[end:]).decode()
    ast.parse(changed)
    return Mutation(path, node.lineno, " ".join(before.split()), " ".join(after.split()), changed)


def copied(folder: Path) -> Path:
    """The checkout without its history; what is built and installed stays where it is."""
    target = folder / "checkout"
    skip = shutil.ignore_patterns("node_modules", ".hypothesis", ".pytest_cache", ".venv*", ".ruff_cache")
    shutil.copytree(ROOT, target, ignore=skip, symlinks=True)  # with what was compiled, which goes by a file's time
    (target / "extension" / "node_modules").symlink_to(ROOT / "extension" / "node_modules")
    return target


def noticed(checkout: Path, chosen: list[str]) -> tuple[str, float]:
    """The first test that fails, "" if none does; and how long that took, in seconds."""
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(checkout), "WORKBENCH_BROWSER": "required"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "--ignore", "tests/parity", *chosen]
    try:
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "it does not end", LIMIT
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    first = failed[0] if failed else f"exit status {done.returncode}: {(done.stdout + done.stderr)[-300:]}" if done.returncode else ""
    return " ".join(first.split())[:150], time.monotonic() - began


def judged(made: Mutation) -> tuple[str, str]:
    """Which run notices the mutation, "" if none does, and how."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = copied(Path(folder))
        (checkout / made.path).write_text(made.text, encoding="utf-8")
        for name, chosen in RUNS.items():
            told, seconds = noticed(checkout, chosen)
            if told:
                return name, f"{told} ({seconds:.0f} s)"
    return "", "nothing noticed it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda text: [int(n) for n in text.split(",")], help="numbers of mutations of the choice")
    parser.add_argument("--list", action="store_true", help="print the mutations and do not run a test")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time")
    asked = parser.parse_args()
    chosen = random.Random(asked.seed).sample(all_sites(), asked.count)
    made = {n: mutation(*site) for n, site in enumerate(chosen) if asked.only is None or n in asked.only}
    if asked.list:
        print("\n".join(f"{n:3} {one}" for n, one in made.items()))
        return 0
    score = Counter()
    with ThreadPoolExecutor(asked.jobs) as pool:
        asked_for = {pool.submit(judged, one): (n, one) for n, one in made.items()}
        for done in as_completed(asked_for):
            (n, one), (by, how) = asked_for[done], done.result()
            score[by] += 1
            print(f"{n:3} {by or 'SURVIVES':8} {one}\n             {how}", flush=True)
    print(f"{score['quick']} of {len(made)} noticed by quick, {len(made) - score['']} by all tests")
    return 1 if score[""] else 0


if __name__ == "__main__":
    sys.exit(main())
