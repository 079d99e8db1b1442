"""Lesson 7: two weights in a valley, four ways down, and a network."""

import math
from typing import Any

import numpy
import pytest
from lesson import Lesson, Run


def curvatures(*names: str, scaled: bool) -> list[float]:
    """The eigenvalues of the Hessian of the mean squared error, from the data with NumPy."""
    from sklearn.datasets import load_diabetes  # takes long to import

    diabetes: Any = load_diabetes(scaled=False)
    x = diabetes.data[:, [diabetes.feature_names.index(name) for name in names]]
    x = x - x.mean(0)
    x = x / x.std(0) if scaled else x / 10
    return numpy.linalg.eigvalsh(2 * x.T @ x / len(x)).tolist()


def steps(run: Run, cell: str, *names: str) -> list[float]:
    """How many steps these optimizers took."""
    return [run.numbers(cell, rf"{name} +(\d+) steps")[0] for name in names]


class TestOptimizers(Lesson):
    name = "07_optimizers"
    answers = {
        "direction": "'almost straight down'",
        "limit": "0.0836",
        "flat-factor": "0.97",
        "constant": "20",
        "zero-grad": "'SGD with momentum 1'",
        "adam-first": "0.1",
        "adam-uncorrected": "3.2",
        "adam-scaled": "'nothing'",
        "adam-state": "(64, 784)",
        "pixels": "10000",
        "cosine": "0.0073",
    }

    def test_the_gradient_points_across_the_valley(self, run):
        right, down = run.numbers("gradient", r"([\d.]+) to the right, ([\d.]+) down")
        assert down > 10 * right

    def test_the_curvatures_are_those_of_the_data(self, run):
        flat, steep = curvatures("bmi", "s1", scaled=False)
        assert run.numbers("curvature", r"curvature ([\d.]+) along the valley and ([\d.]+)") == pytest.approx([flat, steep], rel=1e-3)
        assert 0.08 < 2 / steep < 0.085  # the learning rates on both sides of the limit

    def test_below_the_limit_sgd_arrives_and_above_it_does_not(self, run):
        slow, fast = steps(run, "race", "SGD, lr = 0.008", "SGD, lr = 0.08")
        assert slow > 1000 and 100 < fast < 120
        assert "SGD, lr = 0.085              does not arrive" in run.text("race")
        assert run.numbers("loop", r"in the last turn: ([\d.]+)")[0] > 100

    def test_momentum_is_several_times_as_fast_and_rmsprop_the_fastest(self, run):
        sgd, light, heavy = steps(run, "momentum-race", "SGD, lr = 0.082", "momentum 0.6, lr = 0.13", "momentum 0.9, lr = 0.02")
        assert light < heavy < sgd / 3
        rmsprop, adam, faster = steps(run, "adam-race", "RMSprop, lr = 0.05", "Adam, lr = 0.1", "Adam, lr = 0.2")
        assert rmsprop == 14 and rmsprop < light < faster < adam < sgd

    def test_without_zero_grad_sgd_is_sgd_with_momentum_1(self, run):
        assert "missing-zero-grad" in run.text("forgotten-check")
        assert run.numbers("orbit", r"after 60 steps: ([\de.+-]+)")[0] < 1e-5

    def test_adam_by_hand_is_adam(self, run):
        assert "after 1 step tensor([-0.4000,  0.2000])" in run.text("adam")
        assert run.numbers("adam", r"after 30 steps: ([\de.+-]+)")[0] < 1e-6

    def test_unscaled_pixels_kill_the_hidden_layer(self, run):
        losses = [float(x) for x in run.text("raw-train").rpartition("[")[2].rstrip("]\n").split(",")]
        assert max(losses) > 1e6 and losses[-1] == pytest.approx(math.log(10), abs=0.05)
        assert run.numbers("raw-check", r"(\d+) of 64 units")[0] > 55
        assert "zero-gradient" in run.text("raw-check")

    def test_the_answers_to_the_exercises(self, run):
        shrunk = curvatures("bmi", "s1", scaled=True)
        assert run.numbers("notes-answer-2", r"tensor\(\[([\d.]+), ([\d.]+)\]\)") == pytest.approx(shrunk, rel=5e-3)
        assert steps(run, "notes-answer-2", "SGD:") == [3]
        momentum, adam, rmsprop = steps(run, "notes-answer-3", "momentum 0.6", "Adam", "RMSprop")
        assert momentum < adam < rmsprop == 29

    @pytest.mark.whole
    def test_the_network_learns(self, run):
        found = {
            n: run.numbers("compare", rf"{n} +loss ([\d.]+), ([\d.]+)%") for n in ("SGD, lr = 0.01", "SGD, lr = 0.1", "Adam, lr = 0.001")
        }
        (slow, worst), (sgd, good), (adam, best) = found.values()
        assert adam < sgd < slow - 0.15 and worst < 80 and good > 82 and best > 82

    @pytest.mark.whole
    def test_the_schedule_ends_lower(self, run):
        constant, _ = run.numbers("schedules", r"constant +loss ([\d.]+), ([\d.]+)%")
        cosine, accuracy = run.numbers("schedules", r"cosine +loss ([\d.]+), ([\d.]+)%")
        assert cosine < constant - 0.03 and accuracy > 85
