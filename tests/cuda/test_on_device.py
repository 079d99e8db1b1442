"""`pytest --device`: tests of the engine with tensors on the stand-in, and the list of those that are for the CPU alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import emulate
import pytest

import only_on_the_cpu

HERE = Path(__file__).resolve().parent
ENGINE = HERE.parent / "engine"
QUICK = "func function functional grad gradcheck layout masked optim shape sparse"  # modules of the engine's tests, for half a minute


def run(*arguments: str | Path) -> subprocess.CompletedProcess:
    pytest.importorskip("cupy")
    emulate.scheduler()  # skips without a C++ compiler
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "stand-in", *arguments]
    return subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=900)


@pytest.mark.slow
def test_tests_of_the_engine_pass_on_the_stand_in():
    done = run("-m", "not torch and not long", *[ENGINE / f"test_{name}.py" for name in QUICK.split()])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 250


@pytest.mark.slow
def test_tensors_are_there_and_errors_come_to_light(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text("""
import engine, numpy
x = engine.ones(3)
def test_place(): assert x.is_cuda and engine.from_numpy(numpy.ones(2)).is_cuda and (x.numpy() == 1).all()
def test_default_is_reset_1(): engine.set_default_device("cpu")
def test_default_is_reset_2(): assert engine.ones(1).is_cuda
def test_late(): engine.nn.functional.embedding(engine.tensor([5]), engine.ones(4, 2))
def test_after(): assert engine.ones(1).item() == 1
""")
    done = run(file, "-c", HERE.parents[1] / "pyproject.toml", "-p", "on_device", "--tb=line")
    assert "5 passed, 1 error" in done.stdout and "index 5 is out of bounds" in done.stdout, done.stdout + done.stderr


def test_every_name_in_the_list_is_a_test():
    for name in only_on_the_cpu._REASONS:
        module, _, test = name.partition("::")
        text = (ENGINE / f"{module}.py").read_text(encoding="utf-8")
        assert re.search(rf"^def {test.partition('[')[0]}\(", text, re.MULTILINE) or not test, name


def test_the_longest_name_decides():
    known = "rules of factorizations"
    assert known in only_on_the_cpu.reason("test_vmap_ops", "test_values[ops.factor]")
    assert only_on_the_cpu.reason("test_vmap_ops", "test_values[ops.math]") is None
    assert only_on_the_cpu.reason("test_random", "test_anything[1]") == only_on_the_cpu.reason("test_random", "test_else")
