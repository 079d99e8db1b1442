"""Times: that ops and backward steps are measured for what they took, summed without loss, and told with what recording cost."""

from __future__ import annotations

import math
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
from walked import leaf

import engine
import workbench as wb
from engine import nn
from engine.autograd import Function
from engine.base import observe
from engine.core import devices
from workbench.backward import metrics
from workbench.graph import timing
from workbench.graph.graph import Graph
from workbench.recording.recorder import Recorder
from workbench.recording.recording import Recording
from workbench.recording.retrace import retrace
from workbench.session import surface
from workbench.session.session import Session

NAP = 0.02  # seconds: long beside what a loaded machine adds to an op


class Nap(Function):
    """Sleeps forward and backward, and tells for how long: an op whose time is known from inside."""

    slept: dict[str, float] = {}

    @staticmethod
    def forward(ctx, x):
        Nap.slept["forward"] = clocked(lambda: time.sleep(NAP))
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        Nap.slept["backward"] = clocked(lambda: time.sleep(2 * NAP))
        return g


def clocked(fn) -> float:
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def recorded(fn, **options) -> tuple[Recording, Graph]:
    recorder = Recorder("In [1]", **options)
    with observe.observing(recorder):
        fn()
    recorder.stop()
    graph = Graph(recorder.recording)
    graph.finish({})
    return recorder.recording, graph


def test_an_op_and_its_backward_step_take_what_the_clock_says():
    x, outside, made = leaf(3), {}, []

    def run():
        outside["forward"] = clocked(lambda: made.append(Nap.apply(x)))
        loss = (made[0] * 2).sum()
        outside["backward"] = clocked(loss.backward)

    r, graph = recorded(run)
    times = timing.Times(r)
    nap = next(t for t in timing.by_op(times) if t.key == "Nap")
    assert NAP <= Nap.slept["forward"] <= nap.forward <= outside["forward"]
    assert 2 * NAP <= Nap.slept["backward"] <= nap.backward <= outside["backward"]
    assert nap.calls == 1 and r.op_name(nap.node) == "Nap"
    assert 3 * NAP <= float(times.own.sum()) <= times.seconds
    # one after the other, nothing at once, all inside the recording
    assert (times.begun[1:] >= (times.begun + times.took)[:-1] - 1e-9).all()
    assert times.begun[0] >= 0 and (times.begun + times.took)[-1] <= times.seconds


def test_what_happens_between_ops_is_nobodys_time():
    x, slept = leaf(3), []

    def run():
        y = x + 1
        slept.append(clocked(lambda: time.sleep(NAP)))
        return y * 2

    found = []
    whole = clocked(lambda: found.append(recorded(run)))
    times = timing.Times(found[0][0])
    assert len(times) == 2
    assert 0 < float(times.own.sum()) <= whole - slept[0]
    assert times.begun[1] - times.begun[0] >= slept[0]


def test_a_failed_op_and_an_in_place_write_are_timed_too():
    x = leaf(3).detach()
    recorder = Recorder()
    with observe.observing(recorder):
        x.add_(1)
        x[0] = 3.0
        with pytest.raises(RuntimeError):
            leaf(2, 3) @ leaf(2, 3)
    r = recorder.stop()
    assert r.took[r.failure] > 0
    wrote = [row for row in range(r.count) if r.note[row] == "in place"]
    assert len(wrote) == 2 and all(r.took[row] > 0 for row in wrote)
    assert sum(r.took[row] for row in (*wrote, r.failure)) <= r.ended - r.began
    assert all(math.isnan(r.took[row]) for row in range(r.count) if r.kind[row] != "op")


def test_a_backward_pass_that_is_recorded_itself_counts_no_moment_twice():
    x = leaf(50, 50)
    r, _ = recorded(lambda: ((x @ x).tanh() * x).sum().backward(create_graph=True))
    times = timing.Times(r)
    inside = [row for row in times.row.tolist() if row >= 0 and r.scope[row] >= 0 and r.scopes[r.scope[row]].name == "backward"]
    assert inside
    assert float(times.own.sum()) < float(times.took.sum())
    # the union of all intervals is what their own times add up to
    covered = end = 0.0
    for begin, took in zip(times.begun.tolist(), times.took.tolist(), strict=True):
        covered += max(0.0, begin + took - max(end, begin))
        end = max(end, begin + took)
    assert float(times.own.sum()) == pytest.approx(covered, rel=1e-9)


def test_own_time_is_that_of_nested_intervals():
    own = timing._own(numpy.array([0.0, 1.0, 2.0, 5.0, 20.0]), numpy.array([10.0, 3.0, 1.0, 2.0, 1.0]))
    assert own.tolist() == [5.0, 2.0, 1.0, 2.0, 1.0]
    assert timing._own(numpy.array([]), numpy.array([])).tolist() == []


def test_totals_by_op_line_and_module_are_the_same_time_cut_in_other_ways():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 4))
    x = leaf(5, 6).detach()

    def run():
        for _ in range(3):
            loss = model(x).square().sum()
            loss.backward()

    r, graph = recorded(run)
    times = timing.Times(r)
    whole = pytest.approx(float(times.own.sum()))
    ops, lines, modules = timing.by_op(times), timing.by_line(times, graph), timing.by_module(times, graph)
    assert sum(t.seconds for t in ops) == whole
    assert sum(t.seconds for t in lines) == whole
    tops = [t for t in modules if t.key in ("Sequential", "")]
    assert sum(t.seconds for t in tops) == whole
    assert [t.seconds for t in ops] == sorted((t.seconds for t in ops), reverse=True)
    assert {t.key: t.calls for t in ops if t.calls} == {"linear": 9, "relu": 3, "square": 3, "sum": 3}
    # by its text, not by its place: on a busy machine one slow moment puts another line on top
    (hot,) = (t for t in lines if t.key != timing.LEAF and graph.sites[t.key].text == "loss = model(x).square().sum()")
    assert hot.calls == 18
    assert hot.forward > 0 and hot.backward > 0
    assert {t.label for t in lines if t.key == timing.LEAF} == {"adding up gradients in .grad"}
    by_name = {t.key: t for t in modules}
    assert by_name["1"].calls == by_name["0"].calls == 3
    outer, inner = by_name["1"], [by_name["1.0"], by_name["1.1"]]
    assert outer.seconds == pytest.approx(sum(t.seconds for t in inner)) and outer.inside == pytest.approx(outer.seconds)
    assert by_name["Sequential"].inside == pytest.approx(sum(by_name[k].seconds for k in "012"))


def test_a_module_that_calls_itself_is_counted_once():
    class Twice(nn.Module):
        def forward(self, x, again=True):
            x = x * 2
            return self(x, False) if again else x

    r, graph = recorded(lambda: Twice()(leaf(3)))
    (module,) = timing.by_module(timing.Times(r), graph)
    assert module.calls == 2
    assert module.seconds == pytest.approx(float(timing.Times(r).own.sum()))


def test_other_threads_do_not_move_the_begin_of_an_op():
    x, y = leaf(3), leaf(3)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            y + 1

    thread = threading.Thread(target=busy)
    recorder = Recorder()
    with observe.observing(recorder):
        thread.start()
        Nap.apply(x)
        stop.set()
        thread.join()
    times = timing.Times(recorder.stop())
    assert times.op == ["Nap"] and times.took[0] >= NAP


def test_a_graph_that_nobody_watched_has_no_times_and_says_so():
    y = (leaf(3) * 2).sum()
    session = Session(retrace([y.node], [y]))
    ((answer, buffers),) = session.handle({"type": "ask_timing", "v": 1, "id": 4})
    assert answer["re"] == 4 and answer["missing"] == timing.NOT_TIMED and answer["cost"] == ""
    assert answer["events"]["shape"] == [0, 2] and all(len(b) == 0 for b in buffers)


def ask(r, graph, **window):
    ((answer, buffers),) = Session(r, graph).handle({"type": "ask_timing", "v": 1, "id": 1, **window})
    events = numpy.frombuffer(buffers[0], "<f8").reshape(answer["events"]["shape"])
    places = numpy.frombuffer(buffers[1], "<i4").reshape(answer["places"]["shape"])
    return answer, events, places, numpy.frombuffer(buffers[2], "<i4")


def test_the_answer_has_every_event_of_the_window_and_no_other(monkeypatch):
    x = leaf(3)

    def run():
        y = x
        for _ in range(100):
            y = y * 1.01 + x
        y.sum().backward()

    r, graph = recorded(run)
    times = timing.Times(r)
    answer, events, places, ops = ask(r, graph)
    assert len(events) == len(times) == answer["events"]["shape"][0]
    numpy.testing.assert_array_equal(events[:, 0], times.begun)
    numpy.testing.assert_array_equal(places[:, 0], times.row)
    assert [answer["names"][op] for op in ops] == times.op
    assert answer["forward"] + answer["backward"] == pytest.approx(float(times.own.sum()))
    begin, end = float(times.begun[50]), float(times.begun[80])
    _, inside, _, _ = ask(r, graph, begin=begin, end=end)
    touching = (times.begun < end) & (times.begun + times.took > begin)
    numpy.testing.assert_array_equal(inside[:, 0], times.begun[touching])
    # more than may be sent: the longest, in their order, and what the others are together
    monkeypatch.setattr("workbench.profiling.answers.MOST", 40)
    answer, events, _, _ = ask(r, graph)
    assert len(events) == 40 and answer["left_out"] == len(times) - 40
    assert sorted(events[:, 1]) == sorted(times.took)[-40:]
    assert (numpy.diff(events[:, 0]) >= 0).all()
    assert answer["left_out_seconds"] == pytest.approx(sum(sorted(times.took)[:-40]))


def test_what_recording_cost_is_measured_and_stated(monkeypatch):
    """On a clock on which an op costs 2 µs, a backward step 3 µs, and every second trial is disturbed."""
    clock, made = [0.0], []

    class Timed(Recorder):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

        def op(self, *told):
            super().op(*told)
            clock[0] += 2e-6 * (1 + 9 * (len(made) % 2))

        def backward(self, *told):
            super().backward(*told)
            clock[0] += 3e-6 * (1 + 9 * (len(made) % 2))

    timing.calibrated.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(timing, "Recorder", Timed)
        patched.setattr(timing, "perf_counter", lambda: clock[0])
        assert timing.calibrated() == pytest.approx((2e-6, 3e-6))
    with wb.record() as session:
        y = x = leaf(4, 4)
        for _ in range(2000):
            y = y * x
        y.sum().backward()
    cost = timing.cost(session.recording)
    timing.calibrated.cache_clear()
    assert cost is not None and cost.ops == 2001 and cost.steps == 2002
    assert cost.seconds == pytest.approx(2001 * 2e-6 + 2002 * 3e-6)
    assert cost.sentence.startswith(
        "Recording added about 2.0 µs to each of 2,001 ops and 3.0 µs to each of 2,002 backward steps: 10 ms of "
    )


def test_finding_out_the_cost_disturbs_no_recording():
    timing.calibrated.cache_clear()
    recorder = Recorder()
    with observe.observing(recorder):
        leaf(2) + 1
        assert timing.cost(recorder.recording) is None  # this thread is being recorded
        assert recorder.recording.count == 3
    newest = surface.latest()
    assert timing.cost(recorder.stop()) is not None
    assert surface.latest() is newest and recorder.recording.count == 3


def test_a_gpus_time_is_that_between_its_marks(monkeypatch):
    """A stand-in for a GPU: work takes 5 ms, though launching it takes none."""

    class OnGpu(numpy.ndarray):
        pass

    clock = [0.0]
    gpu = SimpleNamespace(mark=lambda: SimpleNamespace(device=0, time=clock[0]), seconds_between=lambda begin, end: end.time - begin.time)
    monkeypatch.setattr(devices, "gpu", gpu)
    monkeypatch.setattr("workbench.recording.recorder._on_gpu", lambda value: isinstance(getattr(value, "array", value), OnGpu))
    recorder = Recorder()
    x = leaf(3)
    out = x * 2
    op = out.node.op
    for k in range(3):
        clock[0] = 0.1 * k
        recorder.begins()
        clock[0] += 0.005
        recorder.op(op, (x,), {}, engine.Tensor._wrap(out.array.copy().view(OnGpu)))
    r = recorder.stop()
    first = r.begun[1]
    times = timing.Times(r)
    assert times.took.tolist() == pytest.approx([0.005] * 3)
    assert times.begun.tolist() == pytest.approx([first - r.began + 0.1 * k for k in range(3)])
    assert not r.marks
    assert metrics.time(r)[0].tolist() == pytest.approx([math.nan, *[0.005] * 3], nan_ok=True)
    assert timing.Times(r).took.tolist() == times.took.tolist()  # asked once


def test_wb_time_prints_where_the_time_went():
    x = leaf(40, 40)
    with wb.record():
        y = x @ x
        y.sum().backward()
    text = repr(wb.profile())
    head, cost, *_ = text.splitlines()
    assert " in 2 ops, " in head and " in 3 backward steps, " in head
    assert cost.startswith("Recording added about ")
    assert "test_timing.py:" in text and "y = x @ x" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("line ", "op ", "module"))] == ["line", "op"]
    assert wb.profile()._repr_html_().startswith("<pre")


def test_seconds_in_words():
    assert [timing.seconds_text(s) for s in (2.81e-6, 8.029e-4, 0.0221, 0.0045, 1.34, 31.0)] == [
        "2.8 µs", "803 µs", "22 ms", "4.5 ms", "1.3 s", "31 s",
    ]  # fmt: skip


def test_the_example_of_the_documentation_runs(capsys):
    text = (Path(__file__).resolve().parents[2] / "docs" / "time.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, "time.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "in 20 ops" in printed and "Recording added about" in printed
    assert re.search(r"^linear +10 ", printed, re.MULTILINE)
