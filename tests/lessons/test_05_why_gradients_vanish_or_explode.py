"""Lesson 5: thirty layers learn nothing, and why; then they learn."""

import math

import pytest
from lesson import Lesson, Run


def factors(run: Run, cell: str, *names: str) -> list[float]:
    """By what a layer multiplies the gradient, of the networks with these names."""
    return [run.numbers(cell, rf"(?m){name} +gradient × ([\d.]+) per layer")[0] for name in names]


class TestWhyGradientsVanishOrExplode(Lesson):
    name = "05_why_gradients_vanish_or_explode"
    answers = {
        "depth-guess": "'about 10%: it learns nothing'",
        "slope": "1 / 4",
        "exponent": "-17",
        "factor": "0.14",
        "smallest": "'small.0.0.weight'",
        "he-std": "0.177",
        "explode": "2.8",
        "gain-four": "'well below 1'",
        "norm-shape": "(64,)",
        "residual-factor": "1.1",
        "paths": "8",
    }

    def test_the_check_finds_the_vanishing_gradient_and_the_exploding_one(self, run):
        assert "vanishing-gradient" in run.text("check")
        assert "exploding-gradient" in run.text("exploding-check").partition("dead-units")[2]

    def test_the_factor_of_a_sigmoid_layer_is_the_predicted_one(self, run):
        (measured,) = run.numbers("sizes", r"a factor of ([\d.]+) per layer")
        assert measured == pytest.approx(0.25 / math.sqrt(3), rel=0.05)

    def test_the_rule_of_he_keeps_the_gradient_and_larger_weights_make_it_explode(self, run):
        small, right, large = factors(run, "he", "relu, as nn.Linear does", "relu, He", r"relu, std\(w\) = 0.5")
        assert small < 0.5 and right == pytest.approx(1, rel=0.06) and large == pytest.approx(4 / math.sqrt(2), rel=0.06)

    def test_no_gain_saves_the_sigmoid_and_normalisation_does(self, run):
        sigmoid, tanh = factors(run, "activation-plot", "sigmoid, gain 4", "tanh, Xavier")
        assert sigmoid < 0.7 and tanh == pytest.approx(0.94, abs=0.04)
        without, normalised = factors(run, "norm", "sigmoid ", "sigmoid, BatchNorm")
        assert without < 0.15 and normalised == pytest.approx(1, rel=0.1)

    def test_residual_connections_keep_the_gradient(self, run):
        without, residual = factors(run, "residual-train", "tanh ", "tanh, residual")
        assert without < 0.65 and 1 <= residual < 1.15

    def test_the_answers_to_the_exercises(self, run):
        (right,) = run.numbers("notes-answer-1", r"gain 1.20: × ([\d.]+) per layer")
        (layernorm,) = factors(run, "notes-answer-2", "sigmoid, LayerNorm")
        assert right == pytest.approx(1, abs=0.02) and layernorm < 0.5

    @pytest.mark.whole
    def test_thirty_layers_learn_nothing_and_three_do(self, run):
        assert run.numbers("depth", r" 3 layers: (\d+)%")[0] >= 70
        assert run.numbers("depth", r"30 layers: (\d+)%") == [10]
        assert run.numbers("he-train", r"nn.Linear does +(\d+)%") == [10]

    @pytest.mark.whole
    def test_each_remedy_makes_thirty_layers_learn(self, run):
        he, xavier = run.numbers("he-train", r"He +(\d+)%")[0], run.numbers("activation-train", r"Xavier +(\d+)%")[0]
        norm, residual = run.numbers("norm", r"BatchNorm +(\d+)%")[0], run.numbers("residual-train", r"residual +(\d+)%")[0]
        assert he >= 70 and xavier >= 70 and norm >= 77 and residual >= 81
        assert run.numbers("activation-train", r"gain 4 +(\d+)%")[0] < 30
        assert run.numbers("notes-answer-3", r"100 layers: (\d+)%")[0] >= 75
