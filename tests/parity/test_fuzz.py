"""Random programs on PyTorch and on the engine: those that once differed, and some new ones each time."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fuzz import reasons
from fuzz.generator import Generator
from fuzz.minimise import minimised, replay
from fuzz.session import SILENT

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
CORPUS = (Path(__file__).parent / "fuzz" / "corpus.txt").read_text(encoding="utf-8").strip().split("\n\n")


@pytest.mark.parametrize("program", CORPUS)
def test_programs_that_once_differed(program):
    _, found = replay(program.splitlines())
    assert not found, "\n".join(map(str, found))


# New ones in each run, the same in all of its processes.
SEEDS = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))


@pytest.mark.parametrize("seed", [SEEDS.getrandbits(48) for _ in range(60)])
def test_fresh_programs_give_the_same_answers(seed):
    program = Generator(seed)
    for found in program.run():
        if found.kind in SILENT and found.reason is None:
            shortest = "\n".join(minimised(program.session.lines, found))
            pytest.fail(f"{shortest}\n{found.kind}: {found.told}")


def test_a_program_that_differs_is_found_and_shortened(monkeypatch):
    import engine

    right = engine.Tensor.sin
    monkeypatch.setattr(engine.Tensor, "sin", lambda x: right(x) + (x > 1))
    lines = ["v0 = T.tensor([0.5, 2.0], dtype=T.float64)", "v1 = v0 * 2", "v2 = v0.exp()", "v3 = v1.sin()"]
    session, (found,) = replay(lines)
    assert found.kind == "value" and found.line == lines[-1] and session.values == 4
    assert minimised(lines, found) == ["v0 = T.tensor([1.0, 4.0], dtype=T.float64)", "v1 = v0.sin()"]


def test_only_what_has_no_one_answer_is_left_open(monkeypatch):
    import engine

    right = engine.linalg.pinv
    monkeypatch.setattr(engine.linalg, "pinv", lambda x, rtol: right(x, rtol) * 1.5)
    singular, regular = ([f"v0 = T.tensor([[1.1, 2.0], [2.2, {x}]], dtype=T.float64)", "v1 = T.linalg.pinv(v0, 0.0)"] for x in (4.0, 1.0))
    assert not replay(singular)[1] and replay(regular)[1]


def test_reasons_are_sentences():
    for row in reasons.KNOWN:
        assert row.reason.endswith(".") and len(row.reason) > 40
