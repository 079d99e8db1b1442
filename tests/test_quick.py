"""What `make quick` leaves out is never all there is of its subject: it has every op, a program, and tests of every folder."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.op import registry

pytestmark = [pytest.mark.slow, pytest.mark.long]  # collecting every test anew takes its time

ROOT = Path(__file__).resolve().parent.parent
OF_THE_CORE = (
    "engine/test_tape",
    "engine/test_autograd_graph",
    "workbench/test_recorder",
    "workbench/test_stepper",
    "workbench/test_session",
)
# Folders that no quick test names, and why.
ELSEWHERE = {
    "engine.cuda": "a GPU; tests/cuda/test_gpu_runtime.py has a stand-in",
    "workbench.subjects": "the public functions call it: tests/workbench/test_inspect.py",
    "workbench.profiling": "wb.profile and views call it: tests/workbench/test_timing.py",
    "workbench.torch_models": "PyTorch",
    "workbench.jupyter": "a kernel",
}


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> list[str]:
    """The ids of the tests that `make quick` runs, by its own command; of this run where it is one of all tests, which are collected already."""
    # Without the arguments of a `make` that runs these tests.
    environment = {name: value for name, value in os.environ.items() if name not in ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES")}
    told = subprocess.run(["make", "-n", "pytest-quick"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in told.splitlines() if "pytest" in line]
    arguments = shlex.split(line.split("-m pytest", 1)[1])
    if [str(argument) for argument in request.config.args] == ["tests"]:
        marks = set(re.findall(r"not (\w+)", arguments[arguments.index("-m") + 1]))
        folders = tuple(arguments[at + 1] for at, argument in enumerate(arguments) if argument == "--ignore")
        return [
            item.nodeid
            for item in request.session.items
            if not item.nodeid.startswith(folders) and not marks & {mark.name for mark in item.iter_markers()}
        ]
    at = arguments.index("-n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments[:at], *arguments[at + 2 :]]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-2000:]
    return [line for line in found.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize("what", ["value", "reverse", "docstring"])
def test_every_op_is_there(chosen, what):
    families = {op.__module__.removeprefix("engine.") for op in registry.values() if what == "docstring" or what not in op.exempt}
    assert {re.search(r"\[(.*)\]", one)[1] for one in chosen if f"test_ops.py::test_{what}[" in one} == families


def test_every_stored_answer_of_pytorchs_is_there(chosen):
    families = {path.name.partition(".")[0] for path in (ROOT / "tests" / "torch" / "answers").iterdir()}
    assert {re.search(r"\[(.*)\]", one)[1] for one in chosen if "::test_the_answer_is_pytorchs[" in one} == families


def test_a_program_is_there(chosen):
    assert [one for one in chosen if one.startswith("tests/programs/")]


@pytest.mark.parametrize("name", OF_THE_CORE)
def test_the_core_is_there(chosen, name):
    assert len([one for one in chosen if one.startswith(f"tests/{name}.py")]) >= 10


def test_every_folder_is_there(chosen):
    named: set[str] = set()
    for file in {one.partition("::")[0] for one in chosen}:
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Attribute):
                named.add(ast.unparse(node).replace("wb.", "workbench."))
    rooms = {f"{top}.{path.parent.name}" for top in ("engine", "workbench") for path in (ROOT / top).glob("*/__init__.py")}
    empty = {room for room in rooms if not any(one == room or one.startswith(room + ".") for one in named)}
    assert empty <= set(ELSEWHERE), f"no quick test names {sorted(empty - set(ELSEWHERE))}"
