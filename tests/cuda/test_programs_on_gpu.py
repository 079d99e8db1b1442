"""Whole programs with device="cuda" on the stand-in for CuPy: the losses of the CPU, and the host waits only where a table says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import emulate
import pytest
import waits

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"
STORED = json.loads((PROGRAMS / "losses.json").read_text(encoding="utf-8"))  # PyTorch's, which the engine has on the CPU
NAMES = sorted({key.split()[0] for key in STORED})
ON_THE_CPU = {  # programs that make a tensor on the CPU, whatever the default device is
    "denoising_autoencoder": "from_numpy of its pictures",
    "logistic_regression": "from_numpy of its data set",
    "siamese": "from_numpy of its pairs",
}
FEW = ("gpt", "lenet", "mlp")


def run(*names: str) -> dict:
    pytest.importorskip("cupy")
    emulate.scheduler()  # skips without a C++ compiler
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # their matrices are small
    command = [sys.executable, HERE / "programs_on_gpu.py", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=one_thread)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def few():
    return run(*FEW)


@pytest.fixture(scope="module")
def every(few):
    return few | run(*[name for name in NAMES if name not in FEW])


def check(name: str, found: dict) -> None:
    assert "error" not in found, found["error"]
    expected = STORED[f"{name} float32"]
    assert len(found["losses"]) == len(expected) >= 20
    for step, (a, b) in enumerate(zip(found["losses"], expected, strict=True)):
        assert abs(a - b) <= 1e-4 * abs(b), f"step {step}: {a} on the GPU, {b} on the CPU"
    assert set(found["waits"]) <= waits.names(waits.OPS) | waits.names(waits.FUNCTIONS)


@pytest.mark.parametrize("name", FEW)
def test_a_few_first(name, few):
    check(name, few[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ON_THE_CPU])
def test_losses_are_those_of_the_cpu(name, every):
    check(name, every[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_THE_CPU)
def test_programs_with_tensors_on_the_cpu_say_so(name, every):
    assert "Expected all tensors to be on the same device" in every[name]["error"]


@pytest.mark.slow
def test_no_function_is_in_the_table_for_nothing(every):
    waiting = {name for found in every.values() for name in found.get("waits", ())}
    assert waits.names(waits.FUNCTIONS) - waiting == set()
