"""Lesson 9: how far gradients reach in time, what an explosion does, and where a graph has to be cut."""

import math

import pytest
from lesson import Lesson


class TestBackpropagationThroughTime(Lesson):
    name = "09_backpropagation_through_time"
    answers = {
        "weight-count": "664",
        "first-step": "0",
        "scalar": "'1/32'",
        "factor": "0.577",
        "lane": "0.9",
        "clip": "[0.6, 0.8]",
        "cut": "'gradients cannot reach back beyond the piece'",
        "holder": "'state'",
        "state-shape": "(1, 32, 128)",
    }

    def test_the_gradient_fades_as_predicted(self, run):
        factor, left = run.numbers("distance", r"multiplied by ([\d.]+) at each step; after 39 steps ([\de.+-]+) is left")
        assert 0.5 < factor < 1 / math.sqrt(3)  # the matrix, and a little less because of tanh
        assert 1e-11 < left < 4e-11  # a fifty-billionth

    def test_an_open_forget_gate_keeps_the_gradient(self, run):
        rnn, closed, opened = run.numbers("lanes", r"RNN +factor ([\d.]+).*\n.*0\.50 +factor ([\d.]+).*\n.*0\.95 +factor ([\d.]+)")
        assert rnn < closed < 0.7 and 0.95 < opened < 1.1

    def test_half_of_the_state_kept_is_a_factor_of_three_quarters(self, run):
        (factor,) = run.numbers("notes-answer-2", r"factor ([\d.]+)")
        assert abs(factor - (0.5 + 0.5 * 0.53)) < 0.03
        (orthogonal,) = run.numbers("notes-orthogonal", r"factor ([\d.]+)")
        assert abs(orthogonal - 0.8) < 0.05

    def test_an_explosion_hides_behind_a_healthy_loss(self, run):
        loss, no_idea = run.numbers("explode-run", r"loss: ([\d.]+)   no idea: ([\d.]+)")
        assert abs(loss - no_idea) < 0.2
        assert "exploding-gradient" in run.text("explode-check")
        assert run.numbers("clip-train", r"limit inf: norm of the first gradient ([\d,]+),")[0] > 100_000

    @pytest.mark.whole
    def test_clipping_mends_it(self, run):
        (bigrams,) = run.numbers("text", r"bigrams: ([\d.]+)")
        (wild,) = run.numbers("clip-train", r"limit inf:.* loss at the end ([\d.]+)")
        (clipped,) = run.numbers("clip-train", r"limit 1\.0:.* loss at the end ([\d.]+)")
        assert clipped < bigrams - 0.1 < bigrams + 0.1 < wild

    def test_a_state_that_is_carried_on_fails_in_the_second_backward(self, run):
        cell = next(cell for cell in run.cells if cell["id"] == "obvious")
        error = next(output for output in cell["outputs"] if output["output_type"] == "error")
        assert "a second time" in error["evalue"]

    def test_memory_grows_until_the_state_is_detached(self, run):
        (grown,) = run.numbers("leak", r"([\d.]+) MB at the peak")
        (flat,) = run.numbers("leak-fixed", r"([\d.]+) MB at the peak")
        assert abs(grown - 139) < 5 and abs(flat - 31) < 3  # as the text says
        chains = run.text("leak-alive")
        assert "the variable state[1] → its graph" in chains and "state[1].detach()" in chains

    @pytest.mark.whole
    def test_the_lstm_beats_the_table_of_pairs(self, run):
        bigrams, lstm = run.numbers("valid", r"bigrams +validation loss ([\d.]+).*\nLSTM +validation loss ([\d.]+)")
        assert lstm < 1.9 and bigrams > 2.4

    @pytest.mark.whole
    def test_a_unit_remembers_that_somebody_speaks(self, run):
        mean, opened = run.numbers("inside", r"gate ([\d.]+); (\d+) of 128")
        assert mean > 0.6 and opened > 20
        correlation, gate = run.numbers("memory", r"speech [+-]([\d.]+), mean forget gate ([\d.]+)")
        assert correlation > 0.9 and gate > 0.9

    @pytest.mark.whole
    def test_a_reset_costs_little_and_the_gru_starts_faster(self, run):
        carried, reset, gru = run.numbers("notes-answer-1", r"carried ([\d.]+), reset ([\d.]+), GRU ([\d.]+)")
        assert carried < reset < carried + 0.1 and gru < carried - 0.05
