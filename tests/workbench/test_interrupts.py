"""An interrupt by the user at any line of the recorder: it ends what runs, and what is recorded before and after it is whole."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from walked import leaf

import engine
from engine import nn
from engine.base import observe
from workbench.recording import lifetimes, recorder, recording
from workbench.recording.recorder import Recorder
from workbench.recording.recording import BYTES, Recording

FILES = {module.__file__ for module in (recorder, recording, lifetimes)}
SCOPES = {"enter", "leave"}  # a scope that an interrupt leaves open is closed with the one around it


def interrupted(program: Callable[[], Any], at: int) -> tuple[bool, bool]:
    """Run the program; an interrupt comes at the line number `at` that runs in the recorder. Whether it came, and reached the program."""
    left = at

    def line(frame: Any, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return line

    def call(frame: Any, event: str, arg: Any) -> Any:
        return line if frame.f_code.co_filename in FILES and frame.f_code.co_name not in SCOPES else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        program()
    except KeyboardInterrupt:
        return True, True
    finally:
        sys.settrace(before)
    return left <= 0, False


def whole(r: Recording) -> None:
    """Every column has every row, every step is told in full, and memory adds up."""
    columns = (r.ops, r.kind, r.scope, r.code, r.lasti, r.shape, r.dtype, r.bytes, r.saved, r.grad, r.note, r.attrs, r.ref, r.begun, r.took)
    assert {len(column) for column in (*columns, r.edge_end)} == {r.count}
    assert len(r.source) == len(r.target) == len(r.slot) == r.edge_end[-1]
    assert len(r.steps) == len(r.step_ops) == len(r.step_begun) == len(r.step_took)
    assert all(row < r.count for table in (r.times, r.rows) for row in table.values())
    assert all(row < r.count for table in (r.kept, r.held, r.versions) for row in table)
    assert r.kept_bytes == sum(x.nbytes for row, x in r.kept.items() if r.kind[row] != "constant" and row not in r.held) + sum(
        r.held_bytes.values()
    )
    r.settle()
    assert r.now == sum(block[BYTES] for block in r.blocks.values())


def ops(x: Any) -> None:
    y = (x * 2.0).exp()
    y = y + x.t().t()
    y = (y * y).sum()


def written(x: Any) -> None:
    y = x * 2.0
    y[0].add_(1.0)
    y.mul_(x)


def layers(x: Any) -> None:
    nn.Sequential(nn.Linear(3, 3), nn.Tanh())(x)


def a_pass(x: Any) -> None:
    (x.tanh() * x).sum().backward()


@pytest.mark.parametrize("program", [ops, written, layers, a_pass], ids=lambda p: p.__name__)
def test_an_interrupt_at_any_line_of_the_recorder_is_heard_and_leaves_whole_rows(program):
    at = 0
    unheard: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unheard.append
    try:
        while True:
            at += 1
            x = leaf(3, 3)
            watching = Recorder()
            with observe.observing(watching):
                came, heard = interrupted(lambda: program(x), at)  # noqa: B023
                if not came:
                    break
                assert heard and not unheard, f"line {at} of the recorder"
                z = (x + 1.0).relu()
            r = watching.recording
            whole(r)
            assert r.op_name(r.find(z)) == "relu"
            ((plus, _),) = r.inputs(r.find(z))
            assert r.op_name(plus) == "add" and [r.kind[source] for source, _ in r.inputs(plus)] == ["leaf", "constant"]
            numpy.testing.assert_array_equal(r.value(r.find(z)), numpy.maximum(x.array + 1, 0))
            watching.stop()
            del z
            x.grad = None
            gc.collect(0)
            r.settle()
            assert r.now == x.array.nbytes, f"line {at} of the recorder"
    finally:
        sys.unraisablehook = before
    assert at > 100


def test_nothing_of_the_workbench_runs_where_a_tensor_dies():
    ran: list[str] = []

    def call(frame: Any, event: str, arg: Any) -> None:
        ran.append(frame.f_code.co_name)

    x = leaf(3, 3)
    watching = Recorder()
    with observe.observing(watching):
        y = (x * 2.0).exp()
    before = sys.gettrace()
    sys.settrace(call)
    del y
    sys.settrace(before)
    assert ran == [] and len(watching.recording.dead) == 3  # two tensors, and the node of exp, which saves
    watching.recording.settle()
    assert watching.recording.now == x.array.nbytes and not watching.recording.dead


def test_a_recording_follows_deaths_when_its_recorder_is_gone():
    x = leaf(3, 3)
    watching = Recorder()
    with observe.observing(watching):
        y = (x * 2.0).exp()
    r = watching.stop()
    del watching
    r.settle()
    assert r.now == x.array.nbytes + y.array.nbytes
    del y
    r.settle()
    assert r.now == x.array.nbytes


def test_a_death_in_another_thread_is_written_down_by_the_recorded_one():
    watching = Recorder()
    with observe.observing(watching):
        r = watching.recording
        held = [engine.ones(8).requires_grad_() * 2.0 for _ in range(3)]
        other = threading.Thread(target=held.clear)
        other.start()
        other.join()
        assert r.now > 0
        settled = threading.Thread(target=r.settle)
        settled.start()
        settled.join()
        assert r.now > 0, "another thread wrote into a recording that grows"
        r.settle()
        assert r.now == 0
