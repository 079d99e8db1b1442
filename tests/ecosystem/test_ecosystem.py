"""Each program in programs/ runs on PyTorch and, as `workbench run` runs it, on the engine: the lines of JSON that both print are equal.

A program is written as a user would write it: it imports torch and a library, seeds, trains a few steps on made data and prints losses as
JSON, one object a line. Numbers agree within `rtol` (1e-4, or what a line `# rtol: 1e-3, because ...` says), everything else exactly; the
key "seconds", the wall time of the training, is told as a ratio and not compared. `pytest -m ecosystem -k NAME -s` shows what was printed.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ecosystem

ROOT = Path(__file__).resolve().parents[2]
STARTER = str(Path(__file__).with_name("on_pytorch.py"))
PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",  # the models are small
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "TQDM_DISABLE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_it_prints_on_pytorch(program: Path, tmp_path: Path, record_property: Any) -> None:
    text = program.read_text(encoding="utf-8")
    for package in sorted(packages(text)):
        if reason := missing(package):
            pytest.skip(reason)
    expected = printed(tmp_path / "pytorch", STARTER, str(program))
    found = printed(tmp_path / "engine", "-m", "workbench.cli", "run", str(program))
    theirs, ours = (sum(line.pop("seconds", 0.0) for line in lines) for lines in (expected, found))
    assert any(expected), "the program prints nothing to compare"
    rtol = re.search(r"^# rtol: (\S+), because ", text, re.MULTILINE)
    assert differences(found, expected, float(rtol[1]) if rtol else 1e-4) == []
    if theirs:
        record_property("ratio of time", ours / theirs)
        print(f"\n{program.stem}: {ours / theirs:.2f} times PyTorch's time ({ours:.2f} s, {theirs:.2f} s)")


def packages(text: str) -> set[str]:
    """What a program imports beside torch and the standard library."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    return found - {"torch"} - sys.stdlib_module_names


@functools.cache
def missing(package: str) -> str | None:
    """Why a package cannot be used beside PyTorch, if it cannot."""
    if find_spec(package) is None:
        return f"{package} is not installed: make ecosystem installs it"
    ran = subprocess.run([sys.executable, STARTER, package], env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    return f"import {package} fails beside PyTorch: {ran.stderr.splitlines()[-1]}" if ran.returncode else None


def printed(folder: Path, *command: str) -> list[dict[str, Any]]:
    """What a program prints as JSON, run in a folder of its own."""
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, f"{' '.join(command)} ended with status {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-6000:]}"
    print(f"{folder.name}:\n{ran.stdout}")
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"')]


def differences(found: Any, expected: Any, rtol: float, path: str = "") -> list[str]:
    """Where two values of JSON differ by more than rounding."""
    if type(found) is type(expected) is dict and found.keys() == expected.keys():
        return [d for key in expected for d in differences(found[key], expected[key], rtol, f"{path}.{key}")]
    if type(found) is type(expected) is list and len(found) == len(expected):
        return [d for i, pair in enumerate(zip(found, expected)) for d in differences(*pair, rtol, f"{path}[{i}]")]
    if type(found) is type(expected) is float and (
        math.isclose(found, expected, rel_tol=rtol, abs_tol=1e-6) or found != found and expected != expected
    ):
        return []
    return [] if type(found) is type(expected) and found == expected else [f"{path}: {found!r}, on PyTorch {expected!r}"]
