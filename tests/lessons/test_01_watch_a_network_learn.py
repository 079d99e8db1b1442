"""Lesson 1: a network learns to read digits."""

from lesson import Lesson


class TestWatchANetworkLearn(Lesson):
    name = "01_watch_a_network_learn"
    answers = {}

    def test_the_loss_falls(self, run):
        first, last = run.numbers("train", r"loss: ([\d.]+) at the first step, ([\d.]+) on average")
        assert 2.0 < first < 2.7 and last < 0.2 * first

    def test_it_reads_digits(self, run):
        (accuracy,) = run.numbers("test", r"([\d.]+)% of \d+ digits")
        assert accuracy >= 95
