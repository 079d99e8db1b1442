"""Lesson 6: filters, receptive fields, a small convolutional network, and what its saliency says."""

import math
import re

import pytest
from lesson import Lesson


class TestConvolution(Lesson):
    name = "06_convolution"
    answers = {
        "patch": "[0, 3, 3]",
        "sky": "'about 0'",
        "contribution": "[1, 3]",
        "w-bar": "[6, 5]",
        "bias-bar": "[784]",
        "count": "416",
        "features-shape": "(64, 32, 7, 7)",
        "flat": "1568",
        "field-two": "25",
        "field-cnn": "12",
        "stuck": "'all ten classes are about equally probable'",
        "sanity": "'only gradient times pixel'",
    }

    def test_the_loops_are_a_convolution(self, run):
        assert "what slide gives: True" in run.text("photo")

    def test_a_linear_layer_needs_almost_ten_million(self, run):
        few, many = run.numbers("count", r"convolution: +([\d,]+) .*\nlinear: +([\d,]+) ")
        assert few == 16 * 26 and many == 784 * 12544 + 12544

    def test_a_large_step_kills_the_network(self, run):
        (printed,) = re.findall(r"\[(\d[\d.]*, [\d., ]+)\]\n", run.text("pixels"))
        losses = [float(loss) for loss in printed.split(",")]
        assert max(losses) > 1000 and all(abs(loss - math.log(10)) < 0.05 for loss in losses[-4:])
        assert "16 of 16 units of 1 (relu)" in run.text("check")

    @pytest.mark.whole
    def test_convolutions_do_better_with_a_fifth_of_the_weights(self, run):
        many, linear = run.numbers("train", r"linear layers +([\d,]+) parameters, ([\d.]+)%")
        few, convolutional = run.numbers("train", r"convolutions +([\d,]+) parameters, ([\d.]+)%")
        assert 0.19 < few / many < 0.21
        assert convolutional >= 88 and convolutional > linear + 1.5

    @pytest.mark.whole
    def test_the_tidier_map_is_less_about_the_network(self, run):
        plain, tidy = run.numbers("sanity", r"gradient ([-\d.]+), gradient x pixel ([-\d.]+)")
        assert plain < 0.15 and tidy > 0.35

    @pytest.mark.whole
    def test_the_gradient_predicts_small_steps_only(self, run):
        small, really = run.numbers("nudge", r"of +0\.01: predicted +([-+\d.]+), really +([-+\d.]+)")
        assert abs(really / small - 1) < 0.06
        large, really = run.numbers("nudge", r"of +10: predicted +([-+\d.]+), really +([-+\d.]+)")
        assert abs(really / large - 1) > 0.25

    @pytest.mark.whole
    def test_answers_to_the_exercises(self, run):
        mlp, cnn = run.numbers("notes-answer-1", r"by 2: mlp ([\d.]+)%, cnn ([\d.]+)%")
        assert cnn > mlp + 10
        plain, pushed, noisy = run.numbers("notes-answer-3", r"no change +([\d.]+)%\n.*gradient +([\d.]+)%\n.*signs +([\d.]+)%")
        assert pushed < plain - 33 and noisy > plain - 4
