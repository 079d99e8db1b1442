"""Lesson 11: what backward keeps, and what it costs to keep less."""

import re

import numpy
import pytest
from lesson import Lesson


class TestWhereMemoryAndTimeGo(Lesson):
    name = "11_where_memory_and_time_go"
    answers = {
        "relu-bytes": "64 * 16 * 28 * 28 * 4",
        "conv-result": "'no: no rule mentions it'",
        "keeps-most": "'relu 1'",
        "peak-when": "'early in the backward pass'",
        "adam-state": "40980",
        "peak-256": "peak_of(lambda: train_step(order[:256]))",
        "time-per-image": "'it falls at first, then hardly changes'",
        "divide-by": "4",
        "segments": "4",
        "recompute": "33.3",
        "half-bytes": "kept_16",
        "float32-left": "'the loss'",
        "score-gradient": "2e-8",
        "underflow": "0",
        "overflow": "'it skips the update and halves the scale'",
        "slowest": "'conv2d'",
        "leak-culprit": "'losses.append(loss)'",
        "leak-training": "'almost nothing'",
    }

    def test_the_model_is_small_and_its_training_is_not(self, run):
        parameters, kilobytes = run.numbers("model", r"([\d,]+) parameters .* (\d+) kB")
        assert parameters == (16 * 9 + 16) + (32 * 16 * 9 + 32) + (10 * 1568 + 10) and kilobytes == 82
        (peak,) = run.numbers("batch", r"([\d.]+) MB for 256 images")
        assert peak * 1000 > 500 * kilobytes

    def test_only_relu_and_a_variable_keep_the_activations(self, run):
        assert "the variable hidden" in run.text("alive") and "saved by relu" in run.text("alive") and "by 2 chains" in run.text("alive")

    def test_the_peak_is_in_the_backward_pass_and_mostly_activations(self, run):
        assert re.search(r"at the peak \(.* in the backward step of max_pool2d", run.text("step-memory"))
        relu, pool = run.numbers("step-memory", r"relu +([\d.]+) MB [^\n]*\n[^\n]*\n *max_pool2d +([\d.]+) MB")
        assert numpy.isclose(relu * 1e6, 64 * 4 * (16 * 28**2 + 32 * 14**2), rtol=0.01) and pool < 0.25 * relu

    def test_memory_is_linear_in_the_batch(self, run):
        (ratio,) = run.numbers("batch", r"([\d.]+) times as much as for 64")
        assert 3.8 < ratio < 4.2

    @pytest.mark.whole
    def test_time_per_image_falls_and_convolutions_take_most_of_it(self, run):
        one, many = run.numbers("batch", r"([\d.]+) ms per image one by one, ([\d.]+) ms")
        assert many < one
        ops = re.search(r"\nop +calls[^\n]*\n(\w+)", run.text("profile"))
        assert ops and ops[1] == "conv2d"

    def test_pieces_give_the_gradient_of_the_whole_batch(self, run):
        largest, difference = run.numbers("accumulate", r"largest gradient ([\d.]+), largest difference ([\d.e-]+)")
        assert difference < 1e-5 * largest
        whole, pieces = run.numbers("accumulate", r"([\d.]+) MB at once, ([\d.]+) MB in 4 pieces")
        assert 0.2 < pieces / whole < 0.3

    def test_four_segments_need_the_least_memory_and_the_gradients_are_the_same(self, run):
        rows = re.findall(r"^ +(\d+) +([\d.]+) MB", run.text("checkpoint"), re.M)
        peaks = {int(k): float(peak) for k, peak in rows}
        assert sorted(peaks) == [1, 2, 4, 8, 16] and min(peaks, key=lambda k: peaks[k]) == 4
        assert peaks[4] < 0.65 * peaks[1] < peaks[16]
        assert "the same gradients: True" in run.text("checkpoint")

    def test_half_precision_keeps_about_half(self, run):
        (share,) = run.numbers("half", r"(\d+)% of the float32 pass")
        assert 50 < share < 56
        dtypes = re.findall(r"^ +\w+ +torch\.(\w+)$", run.text("half"), re.M)
        assert dtypes == ["float16"] * 8 + ["float32"]

    def test_gradients_underflow_unless_the_loss_is_scaled(self, run):
        (lost,) = run.numbers("underflow-seen", r"(\d+)% of the gradients")
        plain, scaled = run.numbers("scaler", r"times +1: +([\d.]+)%[^\n]*\n+[^\n]*: +([\d.]+)%")
        assert lost > 10 and abs(plain - lost) < 5 and scaled < 1
        step, power = run.numbers("overflow-seen", r"at step (\d+), with the scale 2 to the power (\d+)")
        assert step > 2 and power == 25 - step  # halved after each step before it

    def test_a_list_of_losses_keeps_every_graph_until_backward(self, run):
        assert "the variable losses[9] → its graph → saved by cross_entropy" in run.text("leak-why")
        leaked, item, inference, training = (
            run.numbers("leak-repaired", rf"{name}: +([\d.]+) MB")[0]
            for name in (r"append\(loss\)", r"append\(loss\.item\(\)\)", "in no_grad", r"training, append\(loss\)")
        )
        assert leaked > 190 and item < 0.5 and inference < 0.5 and training < 1

    def test_the_instructors_answers(self, run):
        relu, gelu = (run.numbers("notes-answers-code", rf" with pooling, {name}: ([\d.]+) MB")[0] for name in ("relu", "gelu"))
        assert relu == gelu
        relu, gelu = (run.numbers("notes-answers-code", rf" without pooling, {name}: ([\d.]+) MB")[0] for name in ("relu", "gelu"))
        assert gelu > 1.7 * relu
        three, four = run.numbers("notes-answers-code", r"3 pieces: ([\d.]+) MB\s+2\. 4 pieces: ([\d.]+) MB")
        assert three > 15 > four
        kept, checkpointed = run.numbers("notes-answers-code", r"all kept ([\d.]+) MB, first three checkpointed ([\d.]+) MB")
        assert checkpointed < 0.5 * kept
