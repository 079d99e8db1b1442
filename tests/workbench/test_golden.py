"""The golden logs are what the kernel says today; the view's tests play the very same ones (extension/test/golden.test.ts)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy
import pytest
from golden.make import log
from golden.programs import NUMPY, PROGRAMS

from workbench import protocol

FOLDER = Path(__file__).parent / "golden"


def golden(name: str) -> list[dict]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_every_program_has_its_log():
    assert {file.stem for file in FOLDER.glob("*.jsonl")} == set(PROGRAMS) == set(NUMPY)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernel_says_what_the_log_says(name):
    now = [json.loads(line) for line in log(name)]
    then = golden(name)
    for number, (line, before) in enumerate(zip(now, then, strict=False), 1):
        assert line == before, f"{name}.jsonl line {number}; if it shall be so: python tests/workbench/golden/make.py"
    assert len(now) == len(then)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradients_in_the_log_are_finite_differences(name):
    """Central differences of the program in plain NumPy, float64."""
    values, loss = NUMPY[name]
    arrays = [numpy.array(value, numpy.float64) for value in values.values()]
    said = [line["message"] for line in golden(name) if line["to"] == "view" and line["message"]["type"] == "inspected"]
    last = {one["node"]: one["summary"] for one in said if one["what"] == "grad"}
    assert len(last) == len(arrays)
    for array, told in zip(arrays, last.values(), strict=True):
        gradient = numpy.zeros_like(array)
        for index in numpy.ndindex(array.shape):
            ends = []
            for h in (1e-4, -1e-4):
                kept = array[index].copy()
                array[index] = kept + h
                ends.append(loss(*arrays))
                array[index] = kept
            gradient[index] = (ends[0] - ends[1]) / 2e-4
        assert told["norm"] == pytest.approx(math.sqrt((gradient**2).sum()), rel=1e-4)
        if told["values"] is not None:
            assert told["values"] == pytest.approx(gradient.reshape(-1).tolist(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_view_says_in_the_log_can_be_read(name):
    for line in golden(name):
        if line["to"] == "kernel":
            assert protocol.read(line["message"]).kind == line["message"]["type"]
        else:
            assert line["message"]["type"] in protocol.ToView.registry


def test_a_log_knows_nothing_of_the_machine():
    for name in PROGRAMS:
        text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
        assert "/" + "home/" not in text and "site-packages" not in text
