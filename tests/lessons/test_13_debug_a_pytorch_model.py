"""Lesson 13: four bugs around a GPT-2 of PyTorch and transformers. `make ecosystem` installs both and runs this."""

import math
import re
from importlib.util import find_spec

import pytest
from lesson import Lesson


@pytest.mark.torch
@pytest.mark.ecosystem
@pytest.mark.skipif(find_spec("torch") is None or find_spec("transformers") is None, reason="needs torch and transformers: make ecosystem")
class TestDebugAPyTorchModel(Lesson):
    name = "13_debug_a_pytorch_model"
    answers = {
        "nothing": "4.3",
        "changed": "0",
        "reached": "1",
        "cut": "'detach'",
        "asked": "'e'",
        "differ": "'Dropout'",
    }

    def test_the_marks_on_the_thermometer(self, run):
        nothing, frequencies, pairs = run.numbers("thermometer", r"([\d.]+)  nothing\n([\d.]+)  frequencies\n([\d.]+)  pairs")
        assert nothing == pytest.approx(math.log(75), abs=0.01)
        assert frequencies == pytest.approx(3.35, abs=0.05) and pairs == pytest.approx(2.53, abs=0.05)

    def test_nothing_moves_at_a_learning_rate_of_zero(self, run):
        first, last = run.numbers("still", r"steps ([\d.]+), the last ten ([\d.]+)")
        assert first == pytest.approx(math.log(75), abs=0.05) and last == pytest.approx(first, abs=0.05)
        assert run.numbers("still-reveal", r"(\d+) of (\d+) have changed") == [0, 28]

    def test_the_checks_find_what_the_text_names(self, run):
        assert re.findall(r"^\w+ ([\w-]+)$", run.text("check-report"), re.MULTILINE) == ["gradient-cut", "learning-rate-zero"]
        assert run.text("reached-reveal").strip() == "['transformer.wte.weight']"
        assert run.text("high-checked").endswith("0 findings\n")
        assert re.findall(r"^\w+ ([\w-]+)$", run.text("differ-check"), re.MULTILINE) == ["train-mode-in-evaluation"]

    def test_the_loss_asks_for_the_character_after_the_next(self, run):
        inputs, _, asked = (line[8:] for line in run.text("shift-reveal").splitlines())
        assert asked[:-1] == inputs[2:] + "e" and asked[-1] == "×"

    def test_dropout_makes_two_measurements_differ(self, run):
        first, second = run.numbers("differ", r"([\d.]+) and ([\d.]+)")
        repaired = run.numbers("differ-repair", r"([\d.]+) and ([\d.]+)")
        assert first != second and repaired[0] == repaired[1]

    def test_the_engine_prints_the_losses_of_pytorch(self, run):
        theirs, ours = (line.split() for line in run.text("both").splitlines())
        assert ours.pop().endswith("+engine") and not theirs.pop().endswith("+engine")
        assert [float(x) for x in ours] == pytest.approx([float(x) for x in theirs], abs=2e-4) and len(ours) == 5

    def test_the_exercises_have_the_answers_of_the_notes(self, run):
        left_out = re.search(r"not-in-optimizer · (.*) received a gradient", run.text("notes-answer-1"))
        assert left_out and len(re.findall(r"transformer\.\w+\.\w+", left_out[1])) == 4
        assert run.numbers("notes-answer-2", r"(\d+) positions, from (\d+) to (\d+)") == [16, 0, 15]
        assert run.text("notes-answer-3").split()[-1] == "softmax-before-cross-entropy"

    @pytest.mark.whole
    def test_each_repair_brings_the_loss_to_the_next_mark(self, run):
        losses = [run.numbers(cell, r"last ten steps: ([\d.]+)")[0] for cell in ("still-repair", "second", "third")]
        assert losses[0] == pytest.approx(3.4, abs=0.1)
        assert losses[1] == pytest.approx(3.0, abs=0.15)
        assert losses[2] < 2.45
        assert run.numbers("differ-repair", r"([\d.]+) and")[0] < run.numbers("differ", r"([\d.]+) and")[0]
        assert run.numbers("notes-answer-3", r"(\d\.\d\d) softmax")[0] > 4.0
