"""A long training is recorded in its first turns and in some later ones: memory stays as it is, and what is left out is said."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import engine
import workbench as wb
from engine import nn
from engine.base import observe
from workbench.graph.graph import Graph
from workbench.recording import recorder as recording_of
from workbench.recording.recorder import Recorder


@pytest.fixture
def soon(monkeypatch):
    """Plenty is little here, so that a short training is a long one."""
    monkeypatch.setattr(recording_of, "PLENTY", 40)


def training(turns, recorder, optimizer=True, scope=False):
    """`(model, losses)` of a small training under the recorder."""
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    steps = engine.optim.Adam(model.parameters(), lr=0.05)
    x = engine.randn(16, 4)
    y = x.sum(1, keepdim=True)
    losses = []
    with observe.observing(recorder) if recorder is not None else nullcontext():
        for _ in range(turns):
            model.zero_grad()
            if scope:
                with wb.scope("forward"):
                    loss = (model(x) - y).square().mean()
            else:
                loss = (model(x) - y).square().mean()
            loss.backward()
            if optimizer:
                steps.step()
            losses.append(loss.item())
    if recorder is not None:
        recorder.stop()
    return model, losses


def recorded_losses(recording):
    return [float(recording.value(row)) for row in range(recording.count) if recording.op_name(row) == "mean"]


@pytest.mark.parametrize("optimizer", [True, False])
def test_the_first_turns_and_those_of_a_power_of_two_are_there_and_no_others(soon, optimizer):
    recorder = Recorder(keep=1 << 30)
    _, losses = training(100, recorder, optimizer)
    r = recorder.recording
    wanted = [*range(8), 15, 31, 63]
    assert recorded_losses(r) == pytest.approx([losses[turn] for turn in wanted], abs=0)
    assert r.turns == 100 and r.passed_over == 100 - len(wanted)
    graph = Graph(r)
    graph.finish({})
    message = graph.message()
    assert message.dropped == r.dropped > 0
    assert message.left_out.startswith("11 of 100 training iterations were recorded")


def test_every_turn_can_be_asked_for(soon):
    recorder = Recorder(keep=1 << 30, every_turn=True)
    _, losses = training(40, recorder)
    assert recorded_losses(recorder.recording) == pytest.approx(losses, abs=0)
    assert recorder.recording.left_out() == ""


def test_scopes_stay_balanced_over_turns_that_are_passed_over(soon):
    recorder = Recorder(keep=1 << 30)
    training(40, recorder, scope=True)
    r = recorder.recording
    forward = [scope for scope in r.scopes if scope.name == "forward"]
    assert len(forward) == 10 and all(scope.parent == -1 for scope in forward)


def test_training_is_the_same_watched_or_not(soon):
    _, alone = training(40, None)
    _, watched = training(40, Recorder())
    assert watched == alone


def test_memory_of_a_recording_stays_as_it_is(soon):
    few, many = Recorder(), Recorder()
    training(20, few)
    training(120, many)
    a, b = few.recording, many.recording
    per_turn = a.count / 9  # 8 turns and the 16th
    assert b.count - a.count == pytest.approx(2 * per_turn, rel=0.2)  # the 32nd and the 64th
    assert b.now <= a.now * 1.01 and len(many._rows) <= len(few._rows)


def test_a_program_without_a_training_loop_is_recorded_whole(soon):
    recorder = Recorder()
    x = engine.ones(3)
    with observe.observing(recorder):
        for _ in range(500):
            x = x * 1.001
    assert sum(kind == "op" for kind in recorder.stop().kind) == 500
