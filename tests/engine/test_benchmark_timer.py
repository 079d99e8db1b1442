"""Timers on a clock of their own, measurements and their words."""

from __future__ import annotations

import pytest

import engine
from engine.utils import benchmark
from engine.utils.benchmark import Measurement, TaskSpec, Timer, select_unit, trim_sigfig


class Clock:
    """Each run of `tick()` takes 1 ms on it, looking at it nothing."""

    now = 0.0

    def __call__(self):
        return self.now

    def tick(self):
        self.now += 1e-3


def made(**options):
    clock = Clock()
    return Timer("tick()", globals={"tick": clock.tick}, timer=clock, **options)


def test_timeit():
    found = made(label="a", sub_label="b").timeit(200)
    assert found.number_per_run == 200 and len(found.raw_times) == 1 and found.median == pytest.approx(1e-3)
    assert found.title == "a: b" and found.as_row_name == "b" and found.stmt == "tick()"
    assert repr(found).splitlines()[1:] == ["a: b", "  1.00 ms", "  1 measurement, 200 runs , 1 thread"]


def test_blocks_are_long_enough():
    heard = []
    found = made().blocked_autorange(min_run_time=0.5, callback=lambda number, seconds: heard.append(number))
    assert found.number_per_run == 1 and len(found.times) in (500, 501) and heard == [1] * len(found.times)
    assert repr(found).splitlines()[2:4] == ["  Median: 1.00 ms", "  IQR:    0.00 us (1.00 to 1.00)".replace("us", "ms")]
    assert len(made().adaptive_autorange().times) == 10
    slow = Timer("tick()", globals={"tick": Clock().tick}).blocked_autorange(min_run_time=0.01)
    assert slow.number_per_run >= 10 and sum(slow.raw_times) >= 0.01


def test_the_real_clock_and_setup():
    found = Timer("y = x @ x", setup="x = engine.ones(20, 20)", globals={"engine": engine}).blocked_autorange(min_run_time=0.02)
    assert 1e-7 < found.median < 1e-2 and "setup: x = engine.ones(20, 20)" in repr(found)
    assert benchmark.timer() <= benchmark.timer()


def test_words_of_measurements():
    times = [1.0, 1.1, 1.2, 1.5, 2.0]
    m = Measurement(1000, [t * 1e-3 for t in times], TaskSpec("a\nb", "c\nd", description="e", num_threads=2))
    assert (m.median, m.iqr) == pytest.approx((1.2e-6, 0.4e-6)) and m.mean == pytest.approx(1.36e-6) and m.has_warnings
    assert repr(m).splitlines()[1:] == [
        "stmt:", "  a", "  b", "", "e", "setup:", "  c", "  d", "", "  Median: 1.20 us", "  IQR:    0.40 us (1.10 to 1.50)",
        "  5 measurements, 1000 runs per measurement, 2 threads", "  WARNING: Interquartile range is 33.3% of the median measurement.",
        "           This suggests significant environmental influence.",
    ]  # fmt: skip
    (merged,) = Measurement.merge([m, m])
    assert merged.number_per_run == 1 and len(merged.times) == 10 and merged.median == pytest.approx(m.median)
    assert [select_unit(t)[0] for t in (2e-9, 3e-6, 0.5, 7.0)] == ["ns", "us", "ms", "s"]
    assert trim_sigfig(1234.5, 2) == 1200.0 and trim_sigfig(0.012345, 3) == pytest.approx(0.0123)


def test_what_is_refused():
    with pytest.raises(ValueError, match="`str` stmt"):
        Timer(lambda: 0)
    for options in ({"language": "c++"}, {"global_setup": "#include <x>"}):
        with pytest.raises(RuntimeError):
            Timer("x", **options)
    for method in ("autorange", "repeat"):
        with pytest.raises(NotImplementedError):
            getattr(Timer(), method)()
    with pytest.raises(RuntimeError, match="instructions"):
        Timer().collect_callgrind()
