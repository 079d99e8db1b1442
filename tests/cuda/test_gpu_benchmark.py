"""`benchmarks/gpu.py`, rehearsed: on a machine without a GPU its cases run on small tensors, and both libraries have the same losses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import emulate
import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def benchmark():
    """The modules of the benchmark, of which the names and the figures are looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gpu.py", "--rehearse"])
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import gpu

        yield gpu


def rehearsed(*names: str) -> str:
    """What a rehearsal of these cases prints."""
    pytest.importorskip("cupy")
    emulate.scheduler()  # skips without a C++ compiler
    command = [sys.executable, ROOT / "benchmarks" / "gpu.py", "--rehearse", "--only", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_small_cases_run_and_leave_no_results():
    before = sorted((ROOT / "benchmarks" / "results").iterdir())
    told = rehearsed("MLP", "char-GPT", "host add", "host backward", "256 MB softmax", "256 MB embedding", "256 MB add bf16")
    ran = [line.partition("  ")[0].strip() for line in told.splitlines() if line and not line.startswith(" ")]
    assert ran == [
        "MLP 784-256-256-10 b128", "char-GPT 4x128", "host add", "host backward of 20 muls", "256 MB softmax", "256 MB embedding backward",
        "256 MB add bf16",
    ]  # fmt: skip
    assert sorted((ROOT / "benchmarks" / "results").iterdir()) == before


def test_the_largest_gap_comes_first(benchmark):
    found = {"a": {"ratios": {"eager": 1.5, "memory": 0.8}}, "b": {"ratios": {"bandwidth": 0.5}}, "c": {"error": "x", "ratios": {}}}
    assert [(name, kind) for _, name, kind, _ in benchmark.rows(found)] == [("b", "bandwidth"), ("a", "eager"), ("a", "memory")]
    assert benchmark.gap("bandwidth", 0.95) == 1 and benchmark.gap("host", 2.0) == 2


def test_results_name_misses_and_failures(benchmark, tmp_path):
    found = {"a": {"ratios": {"eager": 1.5, "memory": 0.8}}, "c": {"error": "Traceback\nValueError: x", "ratios": {}}}
    benchmark.write(tmp_path / "gpu.json", {"cases": found})
    read = json.loads((tmp_path / "gpu.json").read_text())
    assert read["misses"] == {"a, eager": 1.5} and read["failures"] == ["c"] and read["cases"] == found
    assert [path.name for path in tmp_path.iterdir()] == ["gpu.json"]


def test_other_losses_are_an_error(benchmark):
    from gpu_cases import compare

    assert compare({"torch": [2.0, 1.0], "engine": [2.0, 1.001]}, 1e-3) == pytest.approx(5e-4)
    for wrong in (1.1, float("nan")):
        with pytest.raises(AssertionError, match="the losses differ"):
            compare({"torch": [2.0, 1.0], "engine": [2.0, wrong]}, 1e-3)
