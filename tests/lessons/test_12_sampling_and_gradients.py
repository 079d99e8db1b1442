"""Lesson 12: two estimators of one gradient, a VAE that learns and one that is cut, and a GAN."""

import math

import pytest
from lesson import Lesson


class TestSamplingAndGradients(Lesson):
    name = "12_sampling_and_gradients"
    answers = {
        "dice": "'there is an error'",
        "truth": "-4",
        "sigma-bar": "-3",
        "pathwise": "1",
        "samples": "'about 100'",
        "kl": "2",
        "first": "543.4",
        "bridge": "'mu: the same gradient; sigma: the gradient times the dice'",
        "collapse": "'mu = 0 and sigma = 1, whatever the image'",
        "d-step": "'only those of the discriminator'",
        "g-step": "'those of both'",
        "end": "1.386",
    }

    def test_a_sample_has_no_gradient(self, run):
        assert "does not require grad" in run.text("dice-backward")

    def test_both_estimators_are_right_and_one_is_exact(self, run):
        mean, deviation = run.numbers("estimators", r"reparameterization +mean +([-\d.]+), standard deviation +([\d.]+)")
        assert abs(mean + 4) < 0.02 and abs(deviation - 1) < 0.02
        mean, deviation = run.numbers("estimators", r"score function +mean +([-\d.]+), standard deviation +([\d.]+)")
        assert abs(mean + 4) < 0.2 and abs(deviation - math.sqrt(123.75)) < 0.7  # of 8e - 4e² + e³/2
        (ratio,) = run.numbers("estimators", r"variances: (\d+)")
        assert 105 < ratio < 145

    def test_an_untrained_decoder_pays_ln_2_for_each_pixel(self, run):
        (reconstruction,) = run.numbers("first", r"reconstruction ([\d.]+), KL")
        assert abs(reconstruction - 784 * math.log(2)) < 15

    def test_the_cut_is_found_when_one_term_stands_alone(self, run):
        assert "gradient-cut" in run.text("check") and "sample()" in run.text("check")
        assert "1 error\n" in run.text("check")
        assert "under no_grad()" in run.text("why-none")

    def test_who_gets_gradients(self, run):
        assert run.numbers("d-step-grads", r"generator: (\d).*\ndiscriminator: (\d)") == [0, 6]
        assert run.numbers("g-step-grads", r"generator: (\d).*\ndiscriminator: (\d)") == [6, 6]

    def test_without_detach_the_game_is_the_same(self, run):
        pair = r"\(([\d.]+), ([\d.]+)\)"
        assert run.numbers("notes-answer-3", rf"play: {pair}") == run.numbers("notes-answer-3", rf"play_without_detach: {pair}")
        assert run.numbers("notes-answer-3", r"in the generator: (\d) of 6") == [6]

    @pytest.mark.whole
    def test_the_vae_learns_and_the_cut_one_collapses(self, run):
        reconstruction, kl = run.numbers("train", r"reconstruction ([\d.]+), KL ([\d.]+)\n?$")
        cut, nothing = run.numbers("cut", r"cut VAE: reconstruction ([\d.]+), KL ([\d.]+)")
        assert reconstruction < 267 and 4 < kl < 8
        assert cut > reconstruction + 100 and nothing < 0.01

    @pytest.mark.whole
    def test_the_generator_finds_all_corners(self, run):
        loss_d, loss_g, near = run.numbers("game", r"discriminator ([\d.]+), of the generator ([\d.]+)\n+(\d+)%")
        assert abs(loss_d - 2 * math.log(2)) < 0.15 and abs(loss_g - math.log(2)) < 0.25 and near > 80
        shares = run.numbers("game", r"\[([\d.]+), ([\d.]+), ([\d.]+), ([\d.]+), ([\d.]+)\]")
        assert min(shares) > 0.1

    def test_a_baseline_lowers_the_variance_alone(self, run):
        plain, wide = run.numbers("notes-answer-1", r"without +baseline: mean ([-\d.]+), standard deviation ([\d.]+)")
        mean, narrow = run.numbers("notes-answer-1", r"with +baseline: mean ([-\d.]+), standard deviation ([\d.]+)")
        assert abs(mean - plain) < 0.1 and abs(narrow - math.sqrt(34.5)) < 0.4 < wide - narrow  # of e³/2 - 4e² - e/2
