"""A training loop under control: it waits, plays, goes turn by turn, and goes back to its start bit for bit."""

from __future__ import annotations

import random

import numpy
import pytest

import engine
from engine import nn
from engine.base import observe
from workbench import protocol
from workbench.recording.recording import Recording
from workbench.session.session import Session
from workbench.training import loop
from workbench.training.loop import Loop
from workbench.training.state import TrainingState


def learner(kind: str = "Adam"):
    engine.manual_seed(1)
    numpy.random.seed(1)
    random.seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.3), nn.Linear(4, 1))
    optimizer = getattr(engine.optim, kind)(model.parameters(), lr=0.05, **({"momentum": 0.9} if kind == "SGD" else {}))
    scheduler = engine.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    return model, optimizer, scheduler


def turn(model, optimizer, scheduler, batch) -> float:
    noise = numpy.random.normal(size=batch.shape) + random.random()
    optimizer.zero_grad()
    loss = model(engine.tensor((batch + 0.1 * noise).astype(numpy.float32)) + engine.randn(*batch.shape)).square().mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.item()


def bits(model) -> list:
    return [t.detach().numpy().tobytes() for t in (*model.parameters(), *model.buffers())] + [
        None if p.grad is None else p.grad.numpy().tobytes() for p in model.parameters()
    ]


DATA = [numpy.random.default_rng(k).normal(size=(6, 3)) for k in range(5)]


class Driven:
    """A loop whose gate follows a script: at the turn so many, these wishes."""

    def __init__(self, data, subjects, script) -> None:
        self.script, self.told = list(script), []
        self.session = Session(Recording("In [1]"))
        self.session.connect(lambda message, buffers: self.told.append(message))
        self.loop = Loop(data, subjects, self.session, self.gate, lambda: {})

    def gate(self, loop) -> None:
        while loop.held:
            self.ask(self.script.pop(0))

    def ask(self, do: str) -> dict:
        ((message, _),) = self.session.handle({"v": protocol.VERSION, "id": 1, "type": "train", "do": do})
        return message


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_reset_puts_everything_back_bit_for_bit(kind):
    """The second run after a reset is the first one again: weights, running statistics, moments, rates, dropout and random numbers."""
    model, optimizer, scheduler = learner(kind)
    turn(model, optimizer, scheduler, DATA[0])  # the optimizer has a state already, and .grad is there
    start = bits(model)
    driven = Driven(DATA, (model, optimizer, scheduler), ["step", "step", "step", "reset", "step", "step", "step", "end"])
    losses, states = [], []
    for batch in driven.loop:
        if driven.loop.turn == 0 and losses:
            assert bits(model) == start
        losses.append(turn(model, optimizer, scheduler, batch))
        states.append(bits(model))
    assert len(losses) == 6 and losses[:3] == losses[3:] and states[:3] == states[3:]
    assert len(set(losses)) == 3
    assert driven.ask("reset")["turn"] == 0 and bits(model) == start  # also when the loop has ended


def test_a_controlled_training_is_the_plain_one():
    model, *rest = learner()
    for batch in DATA:
        turn(model, *rest, batch)
    plain = bits(model)
    model, *rest = learner()
    driven = Driven(DATA, (model, *rest), ["step", "step", "play"])
    for batch in driven.loop:
        turn(model, *rest, batch)
    assert bits(model) == plain
    last = [m for m in driven.told if m["type"] == "training"][-1]
    assert (last["turn"], last["total"], last["state"], last["resets"]) == (5, 5, "ended", True)


def test_each_turn_gone_through_can_be_looked_at():
    model, *rest = learner()
    driven = Driven(DATA, (model, *rest), ["step", "step", "end"])
    name = driven.session.recording.name
    for number, batch in enumerate(driven.loop):
        turn(model, *rest, batch)
        assert driven.loop.turn == number
    session = driven.session
    assert session.recording.name == name and "linear" in [session.recording.op_name(row) for row in range(session.recording.count)]
    assert [one.label() for one in session.passes] and session.stepper is session.passes[-1]
    weight = next(row for row, n in session.recording.names.items() if n.endswith("0.weight"))
    array, missing = session.gradient(weight)
    assert missing == ""
    numpy.testing.assert_array_equal(array, model[0].weight.grad.numpy())
    graphs = [m for m in driven.told if m["type"] == "graph"]
    assert len(graphs) == 2 and {m["recording"] for m in graphs} == {name}
    assert observe.current is None


def test_while_it_plays_few_turns_are_recorded_and_it_can_be_paused():
    recorded = []
    driven = Driven(range(1000), (), ["play", "step", "end"])
    for k in driven.loop:
        recorded.append(observe.current is not None)
        if k == 700:
            driven.ask("pause")
    assert 1 <= sum(recorded[:700]) < 50
    assert driven.loop.turn == 702 and recorded[701]  # one more by "step", and that one is shown
    assert observe.current is None


def test_while_it_plays_turns_that_take_long_to_show_are_recorded_less_often(monkeypatch):
    now, recorded = 100.0, []
    monkeypatch.setattr(loop, "monotonic", lambda: now)
    driven = Driven(range(200), (), ["play"])
    take_over = driven.session.take_over

    def slowly(*args):
        nonlocal now
        now += 1.0
        take_over(*args)

    monkeypatch.setattr(driven.session, "take_over", slowly)
    for _ in driven.loop:
        now += 0.25  # an iteration
        if observe.current is not None:
            recorded.append(now)
    spent = len(recorded) / (recorded[-1] - recorded[0])  # a second each
    assert len(recorded) == 3 and spent <= 1.5 * loop.SHARE


def test_an_error_or_a_break_leaves_nobody_watching():
    driven = Driven(range(3), (), ["step"])
    with pytest.raises(ZeroDivisionError):
        for _ in driven.loop:
            assert observe.current is not None
            1 / 0  # noqa: B018
    assert observe.current is None and driven.loop.over
    driven = Driven(range(3), (), ["step"])
    for _ in driven.loop:
        break
    assert observe.current is None and driven.loop.over
    assert "has ended" in driven.ask("play")["sentence"]


def test_what_cannot_be_is_refused_with_a_sentence():
    driven = Driven(range(3), (), ["end"])
    assert "write wb.loop(data, model, optimizer)" in driven.ask("reset")["sentence"]
    session = Session(Recording())
    ((message, _),) = session.handle({"v": protocol.VERSION, "id": 1, "type": "train", "do": "play"})
    assert "There is no training loop here" in message["sentence"]
    with pytest.raises(TypeError, match="it got a list"):
        TrainingState([[1, 2]])
    x = engine.ones(3).requires_grad_()
    x.grad = engine.tensor([1.0, 2.0, 3.0])
    state, grad = TrainingState([x]), x.grad
    with engine.no_grad():
        x.mul_(5)
        x.grad.mul_(5)
    x.grad = None
    state.restore()
    assert x.tolist() == [1.0, 1.0, 1.0] and x.grad is grad and grad.tolist() == [1.0, 2.0, 3.0]


def test_a_loop_in_a_watched_cell_records_nothing_of_its_own():
    watcher = observe.Observer()
    driven = Driven(range(2), (), ["step", "step"])
    with observe.observing(watcher):
        for _ in driven.loop:
            assert observe.current is watcher


def test_outside_jupyter_the_data_is_gone_through_as_it_is():
    import workbench as wb

    data = [1, 2]
    assert wb.loop(data) is data
