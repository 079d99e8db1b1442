"""Lesson 8: a layer finds the counts, and a network beats them."""

import math

import pytest
from lesson import Lesson


class TestWordsBecomeVectors(Lesson):
    name = "08_words_become_vectors"
    answers = {
        "after-q": "'u'",
        "likelihood": "1.386",
        "unseen": "'infinite'",
        "one-hot": "'row i of W'",
        "push": "-0.1926",
        "rows": "4",
        "reaches": "'down to the same value'",
        "table": "531441",
        "first-loss": "3.3",
        "vectors-shape": "(64, 6)",
    }

    def test_counting_narrows_27_symbols_to_10(self, run):
        loss, perplexity = run.numbers("loss", r"training names: loss ([\d.]+), perplexity ([\d.]+)")
        assert 9.5 < perplexity < 11 and math.isclose(math.log(perplexity), loss, abs_tol=0.01)

    def test_the_loss_on_unseen_pairs_is_infinite_and_smoothing_mends_it(self, run):
        assert "validation loss: inf" in run.text("valid-loss")
        training, validation = run.numbers("valid-loss", r"training loss ([\d.]+), validation loss ([\d.]+)")
        assert training < validation < 2.4

    def test_one_layer_learns_the_counts(self, run):
        counted, learned = run.numbers("layer", r"counted: ([\d.]+)   learned: ([\d.]+)")
        assert counted <= learned < counted + 0.002  # nothing is below the entropy of the counts
        (difference,) = run.numbers("layer-weights", r"or more: ([\d.]+)")
        assert difference < 0.02

    def test_an_initialisation_is_too_sure(self, run):
        (loss,) = run.numbers("too-sure-run", r"first step: ([\d.]+)")
        assert loss > 20
        (saturated,) = run.numbers("too-sure-check", r"(\d+) % of NameModel \(tanh\)")
        assert saturated > 50
        (deviation,) = run.numbers("too-sure-scores", r"std ([\d.]+)")
        assert 11 < deviation < 17  # the text says about 14

    @pytest.mark.whole
    def test_the_model_that_is_too_sure_loses_a_thousand_steps(self, run):
        sure, wide = run.numbers("losses", r"too sure +below.*step (\d+)\n.*\n10 +below.*step (\d+)")
        assert sure > 1000 and wide < 200

    @pytest.mark.whole
    def test_the_networks_beat_the_table(self, run):
        rows = ("counted pairs", "2 numbers", "10 numbers, too sure", "10 numbers")
        (_, table), (_, flat), sure, wide = (run.numbers("compare", rf"\n{row} +([\d.]+) +([\d.]+)") for row in rows)
        assert wide[1] < flat - 0.1 and flat < table - 0.1
        assert abs(sure[0] - wide[0]) < 0.05  # caught up on the training names
        assert abs(sure[1] - flat) < 0.06 and sure[1] > wide[1] + 0.1  # but not on others

    @pytest.mark.whole
    def test_vowels_lie_together(self, run):
        own, other = run.numbers("notes-vowels", r"to a vowel ([\d.]+), to a consonant ([\d.]+)")
        assert own < 0.6 * other
