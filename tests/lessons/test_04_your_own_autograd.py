"""Lesson 4: an autograd in 80 lines agrees with finite differences and with the engine, and learns to read two digits."""

import json
import math

import pytest
from lesson import FOLDER, Lesson


def central(f, at, h=1e-6):
    """The derivative of f by a central difference."""
    return (f(at + h) - f(at - h)) / (2 * h)


def neuron(x, w, b):
    return (math.tanh(w * x + b) - 1) ** 2 + w**2


class TestYourOwnAutograd(Lesson):
    name = "04_your_own_autograd"
    answers = {
        "tanh-slope": "0.64",
        "last-node": "'mul'",
        "w-bar": "-1.54",
        "careless": "'only that of w'",
        "products": "102",
        "weight-shape": "(6, 16)",
        "batch": "'a tenth of the gradient for one image'",
    }

    def test_it_has_80_lines(self):
        cells = json.loads((FOLDER / f"{self.name}.ipynb").read_text(encoding="utf-8"))["cells"]
        assert len(next(cell for cell in cells if cell["id"] == "whole")["source"]) <= 80

    def test_the_gradients_are_those_of_the_formula(self, run):
        expected = [
            central(lambda x: neuron(x, 0.5, -1), 3),
            central(lambda w: neuron(3, w, -1), 0.5),
            central(lambda b: neuron(3, 0.5, b), -1),
        ]
        number = r"\s+(-[\d.]+)"
        for name, value in zip("xwb", expected, strict=True):
            assert run.numbers("check", f"{name}{number}{number}") == pytest.approx([value, value], abs=2e-6)
        assert run.numbers("check", rf"w{number * 3}")[2] == pytest.approx(expected[1], abs=2e-6)
        assert run.numbers("check", rf"b{number * 3}")[2] == pytest.approx(expected[2], abs=2e-6)

    def test_the_missing_character_loses_the_share_of_the_weight_decay(self, run):
        assert run.text("careless-run").count("differs") == 1
        careless, right = run.numbers("careless-run", r"w: careless +(-[\d.]+) +correct +(-[\d.]+) +<- differs")
        assert right - careless == pytest.approx(2 * 0.5, abs=2e-6)  # d(w**2)/dw
        long, short = run.numbers("paths", r"‖·‖ ([\d.]+)  L [^‖]*‖·‖ ([\d.]+)  L")
        assert (long, short) == pytest.approx((-careless, 1.0), abs=1e-3)

    def test_tensors_give_the_same(self, run):
        mine, theirs, difference = run.numbers("agree", r"loss: +([\d.]+) and ([\d.]+)\nlargest difference: (\S+)")
        assert mine == pytest.approx(theirs, rel=1e-10) and difference < 1e-14
        (values,) = run.numbers("agree", r"([\d,]+) values")
        # for each image 102 products, as many sums, 6 relus, tanh, minus, square and sum; the pixels, the target; for all, 0, the factor and the mean
        assert values == 10 * (102 + 102 + 6 + 4 + 16 * 6 + 1) + 6 * 17 + 7 + 3
        assert "10 ops" in run.text("tensors")

    @pytest.mark.whole
    def test_it_reads_threes_and_eights(self, run):
        first, last = run.numbers("train", r"loss: ([\d.]+) for the first batch, ([\d.]+) on average")
        assert 0.8 < first < 1.3 and last < 0.1
        assert run.numbers("train", r"([\d.]+)%\n")[0] > 93

    @pytest.mark.whole
    def test_it_learns_more_slowly_with_the_bug(self, run):
        loss, accuracy = run.numbers("batch-train", r"loss ([\d.]+) on average in the last epoch, ([\d.]+)% read correctly")
        assert 0.2 < loss < 0.6 and accuracy > 85

    def test_the_answers_to_the_exercises(self, run):
        sigmoid = 1 / (1 + math.exp(-0.3))
        assert run.numbers("notes-answer-1", r"([\d.]+) ([\d.]+) ([\d.]+)") == pytest.approx([sigmoid * (1 - sigmoid)] * 3, abs=2e-6)
        more, doubled = run.numbers("notes-answer-2", r"two: ([\d.]+) times\n.*two: ([\d.]+) times")
        assert more > 2.5 and doubled == 2
        assert run.text("notes-answer-3").split() == ["add", "pow", "pow", "sub", "tanh", "add", "mul"]
        assert run.numbers("notes-order-run", r"^([\d.]+) is not 10")[0] != 10
