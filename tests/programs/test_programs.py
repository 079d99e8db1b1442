"""Whole programs in the style of courses, run unmodified on the engine: PyTorch's losses, step by step.

Weights need not be carried over: under a seed the engine starts from PyTorch's own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUNNING = Path(__file__).with_name("running.py")
STORED = json.loads(RUNNING.with_name("losses.json").read_text(encoding="utf-8"))
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
NAMES = sorted(path.stem for path in RUNNING.parent.glob("*.py") if path not in (RUNNING, Path(__file__)))


def answers(library: str, *names: str) -> dict:
    done = subprocess.run([sys.executable, RUNNING, library, *names], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def ours() -> dict:
    return answers("engine")


@pytest.fixture(scope="module")
def theirs() -> dict:
    return answers("torch")


def compare(found: list | str, expected: list | str, tolerance: float) -> None:
    assert isinstance(found, list), found
    assert isinstance(expected, list), expected
    assert len(found) == len(expected) >= 20
    for step, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert abs(a - b) <= tolerance * abs(b), f"step {step}: {a}, PyTorch has {b}"


def test_there_are_programs():
    assert len(NAMES) >= 30 and {key.split()[0] for key in STORED} == set(NAMES)


def test_a_small_one_first():
    for key, losses in answers("engine", "lenet").items():
        compare(losses, STORED[key], TOLERANCE[key.split()[1]])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_pytorch(name, dtype, ours):
    compare(ours[f"{name} {dtype}"], STORED[f"{name} {dtype}"], TOLERANCE[dtype])


@pytest.mark.long
def test_compiled_modules_have_the_same_losses():
    found = answers("compiled", "distillation", "lenet", "gpt", "vae", "lstm_language_model", "siamese")
    counts = found.pop("compiled")
    assert counts["eager"] == [] and counts["programs"] >= 12
    for key, losses in found.items():
        compare(losses, STORED[key], TOLERANCE[key.split()[1]])


@pytest.mark.torch
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
def test_the_stored_losses_are_todays(name, dtype, theirs):
    compare(theirs[f"{name} {dtype}"], STORED[f"{name} {dtype}"], 10 * TOLERANCE[dtype])
