"""Lesson 1: a network learns to read digits."""

import math

from lesson import Lesson


class TestWatchANetworkLearn(Lesson):
    name = "01_watch_a_network_learn"
    answers = {
        "direction": "'it falls'",
        "nudge": "-0.00213",
        "scores-shape": "(32, 10)",
        "first-loss": "2.3",
        "off": "0",
        "guess": "'more than 95 %'",
        "faster-guess": "'2.3 or more: it only guesses'",
    }

    def test_the_gradient_is_the_slope(self, run):
        out = math.tanh(0.4 * 1.5 - 0.9 * 0.5 + 0.1)
        slope = 2 * (out - 1) * (1 - out**2)  # of the loss, in the sum before tanh
        gradient, other = run.numbers("tiny-check", r"w\.grad says +tensor\(\[(-?[\d.]+), +(-?[\d.]+)\]\)")
        (nudged,) = run.numbers("tiny-check", r"a nudge says +w0: (-?[\d.]+)")
        assert math.isclose(gradient, 1.5 * slope, rel_tol=1e-4) and math.isclose(other, -0.5 * slope, rel_tol=1e-4)
        assert math.isclose(nudged, gradient, rel_tol=1e-2)

    def test_the_loss_falls_from_that_of_guessing(self, run):
        first, last = run.numbers("train", r"loss: ([\d.]+) at the first step, ([\d.]+) on average")
        assert math.isclose(first, math.log(10), rel_tol=0.05) and last < 0.05

    def test_it_reads_digits(self, run):
        (accuracy,) = run.numbers("test", r"([\d.]+)% of 447 digits")
        assert accuracy > 95

    def test_large_steps_kill_units_and_the_check_says_so(self, run):
        worst, last = run.numbers("faster", r", ([\d.]+) at its worst, ([\d.]+) on average")
        assert worst > 10 and last > math.log(10) - 0.1
        (dead,) = run.numbers("faster-check", r"dead-units: (\d+) of 32 units")
        assert dead >= 28
        assert "a smaller learning rate" in run.text("faster-check")

    def test_the_instructors_answers(self, run):
        names = ("as in the lesson", r"2\. without zero_grad", r"3\. lr=1.0 with relu", "lr=1.0 with tanh", r"4\. squared error")
        plain, uncleared, relu, tanh, squared = (run.numbers("notes-answers-code", rf"{name} +([\d.]+)%")[0] for name in names)
        assert relu < 20 and tanh < 40 and uncleared < 50 and plain > 90 and squared > 90
