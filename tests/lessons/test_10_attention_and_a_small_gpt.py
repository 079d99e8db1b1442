"""Lesson 10: attention is an average with weights of its own, and gradients tell who may look at whom."""

import math

import pytest
from lesson import Lesson


class TestAttentionAndASmallGPT(Lesson):
    name = "10_attention_and_a_small_gpt"
    answers = {
        "average-row": "[1 / 3, 1 / 3, 1 / 3, 0, 0, 0]",
        "score-variance": "64",
        "scores-shape": "(6, 6)",
        "v-rows": "'rows 0, 1 and 2'",
        "mask-node": "'masked_fill'",
        "order": "'not at all'",
        "first-loss": "4.3",
        "tied-rows": "75",
        "two-uses": "2",
        "reach": "136",
        "suspect": "'masked_fill, the causal mask'",
    }

    def test_the_variance_of_a_score_is_the_width_and_scaling_keeps_the_softmax_soft(self, run):
        for width in (1, 4, 16, 64, 256, 1024):
            variance, plain, scaled = run.numbers("variance", rf"\n *{width} +([\d.]+) +([\d.]+) +([\d.]+)")
            assert variance == pytest.approx(width, rel=0.1)
            assert scaled == pytest.approx(0.36, abs=0.06) and plain >= scaled
        assert plain > 0.95

    def test_equal_words_get_equal_outputs_without_a_mask(self, run):
        first, second = run.text("order").splitlines()
        assert first.removeprefix("position 0") == second.removeprefix("position 4")

    def test_an_untrained_model_guesses(self, run):
        assert run.numbers("forward", r"(\d\.\d\d)\n")[0] == pytest.approx(math.log(75), abs=0.1)

    def test_every_row_of_the_tied_table_has_a_gradient(self, run):
        assert run.numbers("tied", r"(\d+) different characters are read; (\d+) rows") == [9, 75]

    def test_the_reach_of_gradients_is_a_triangle_and_without_the_mask_a_square(self, run):
        assert run.numbers("reach", r"(\d+) of 256") == [136]
        assert run.numbers("suspect-reach", r"(\d+) and (\d+) of 256") == [136, 256]

    def test_the_first_nan_of_a_row_without_a_key_is_found_at_the_softmax(self, run):
        assert run.numbers("notes-answer-1", r"(\d+) of 256") == [165]
        assert run.text("notes-answer-1-nan").startswith("softmax")

    def test_a_table_that_is_too_large_is_worse_than_guessing(self, run):
        assert 30 < run.numbers("notes-answer-3", r"([\d.]+)")[0] < 50

    @pytest.mark.whole
    def test_it_learns_more_than_pairs(self, run):
        (loss,), (pairs,) = run.numbers("train", r"not read: ([\d.]+)"), run.numbers("pairs", r"pairs: ([\d.]+)")
        assert loss < 1.95 and pairs == pytest.approx(2.5, abs=0.1)

    @pytest.mark.whole
    def test_the_second_block_looks_further_back(self, run):
        number = r"([\d.]+), ([\d.]+), ([\d.]+), ([\d.]+)"
        found = run.numbers("maps", rf"back {number}.*\n.*back {number}")
        assert sum(found[:4]) < 0.7 * sum(found[4:]) and min(found[:4]) < 2.5

    @pytest.mark.whole
    def test_a_model_that_sees_the_answer_has_a_tiny_loss_and_writes_rubbish(self, run):
        assert run.numbers("suspect", r"not read: ([\d.]+)")[0] < 0.3
        assert run.numbers("notes-answer-1", r"not read: ([\d.]+)")[0] < 0.3

    @pytest.mark.whole
    def test_without_positions_it_is_hardly_better_than_pairs(self, run):
        sound, without = run.numbers("notes-answer-2", r"GPT: ([\d.]+)[\s\S]*WithoutPositions: ([\d.]+)")
        assert sound < without - 0.15 and without < 2.5
