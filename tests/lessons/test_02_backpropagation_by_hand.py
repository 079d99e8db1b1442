"""Lesson 2: what is worked out by hand is what the engine finds."""

import re

from lesson import Lesson


class TestBackpropagationByHand(Lesson):
    name = "02_backpropagation_by_hand"
    answers = {
        "first-node": "'loss'",
        "z-bar": "-1",
        "w-bar": "-3",
        "a-bar": "9",
        "w-shape": "(2, 3)",
        "broadcast": "'the gradient of Y, summed over the samples'",
        "difference-shape": "(4, 4)",
        "passes": "10",
    }

    def test_the_chain_rule_by_hand(self, run):
        # d = 0.5 * 3 - 1 - 1; the loss is d squared
        assert run.text("paper").split() == ["by", "hand", "-3.0", "-1.0", "the", "engine", "-3.0", "-1.0"]

    def test_a_loss_that_was_broadcast_is_found_and_does_harm(self, run):
        assert "broadcast-in-loss" in run.text("wrong-check") and "4×4 differences of 4" in run.text("wrong-check")
        rows = [[float(x) for x in row.split(",")] for row in re.findall(r"\[([^\]]+)\]", run.text("wrong-fit"))]
        wanted, four, sixteen = rows
        assert four == wanted and all(abs(a - b) > 0.5 for a, b in zip(sixteen, wanted, strict=True))

    def test_reverse_mode_takes_one_pass_for_each_output(self, run):
        assert run.numbers("modes", r"passes +(\d+) +(\d+)") == [6, 1]
        assert run.numbers("modes-other", r"passes +(\d+) +(\d+)") == [1, 5]
        assert run.numbers("notes-answers-modes", r"passes +(\d+) +(\d+)") == [6, 8]

    def test_the_instructors_answers(self, run):
        numbers = [abs(float(x)) for x in re.findall(r"-?\d+\.\d*(?=\)|$)", run.text("notes-answers-code"), re.M)]
        assert numbers[:4] == [0, 4, 9, 3]
        assert abs(numbers[4] - 8) < 1e-4
