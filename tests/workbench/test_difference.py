"""Two recordings in one graph: what was added, removed and changed is exactly what was edited."""

from __future__ import annotations

import random

import numpy as np
import pytest

import engine
import workbench as wb
from engine import nn
from workbench.backward import metrics
from workbench.compare import difference
from workbench.compare.difference import Difference


def recorded(program):
    with wb.record() as session:
        program()
    return session.recording


def changes(before, after):
    found = Difference(before, after)
    return {
        status: [found.op_name(row) or found.names.get(row) for row, change in enumerate(found.changes) if change.status == status]
        for status in ("same", "changed", "added", "removed")
    }


def mlp(activation, width=8, twice=False):
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, width), activation(), nn.Linear(width, 3))
    x = engine.ones(5, 4)

    def program():
        y = model(x)
        if twice:
            y = y * 2
        return y.square().mean()

    return program


def test_the_same_program_is_the_same():
    found = changes(recorded(mlp(nn.ReLU)), recorded(mlp(nn.ReLU)))
    assert not found["changed"] and not found["added"] and not found["removed"]
    assert len(found["same"]) > 5


def test_an_op_that_came_and_one_that_went():
    found = changes(recorded(mlp(nn.ReLU)), recorded(mlp(nn.ReLU, twice=True)))
    assert "mul" in found["added"] and not found["removed"]
    found = changes(recorded(mlp(nn.ReLU, twice=True)), recorded(mlp(nn.ReLU)))
    assert "mul" in found["removed"] and not found["added"]


def test_another_op_at_the_same_place_and_another_shape_are_said():
    found = Difference(recorded(mlp(nn.ReLU)), recorded(mlp(nn.ReLU, width=16)))
    words = [change.words for change in found.changes if change.status == "changed"]
    assert any("shape 5×8 became 5×16" in text for text in words)
    y = engine.ones(3)
    found = Difference(recorded(lambda: y.sin().sum()), recorded(lambda: y.cos().sum()))
    assert any("sin became cos" in change.words for change in found.changes)


def test_attributes_and_values_are_compared():
    x = engine.arange(6.0).reshape(2, 3)
    found = Difference(recorded(lambda: x.sum(0)), recorded(lambda: x.sum(1)))
    assert any("became" in change.words for change in found.changes)
    a, b = engine.tensor([3.0, 4.0]), engine.tensor([3.0, 4.0])
    found = Difference(recorded(lambda: a * 1.0), recorded(lambda: b * 1.1))
    row = next(row for row in range(found.count) if found.op_name(row) == "mul")
    expected = np.linalg.norm([0.3, 0.4]) / np.linalg.norm([3.3, 4.4])
    assert found.distance[row] == pytest.approx(expected, rel=1e-5)
    assert metrics.difference(found)[0][row] == pytest.approx(expected, rel=1e-5)


def test_every_row_comes_after_its_inputs_and_every_row_of_both_is_there_once():
    rng = random.Random(5)

    def program(ops):
        x = engine.ones(3, requires_grad=True)
        made = [x]
        for name, at in ops:
            made.append(getattr(made[at % len(made)], name)())
        return made[-1].sum()

    names = ["sin", "cos", "exp", "neg", "tanh"]
    for _ in range(30):
        ops = [(rng.choice(names), rng.randrange(100)) for _ in range(rng.randrange(1, 40))]
        other = list(ops)
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(other))
            other[at : at + rng.randrange(2)] = [(rng.choice(names), rng.randrange(100))] * rng.randrange(2)
            other = other or [("sin", 0)]
        before, after = recorded(lambda ops=ops: program(ops)), recorded(lambda ops=other: program(ops))
        found = Difference(before, after)
        for row in range(found.count):
            assert all(source < row for source, _ in found.inputs(row))
        assert sorted(c.before for c in found.changes if c.before >= 0) == list(range(before.count))
        assert sorted(c.after for c in found.changes if c.after >= 0) == list(range(after.count))


def test_nan_at_the_same_place_is_the_same_and_elsewhere_is_not():
    a, b = engine.tensor([1.0, -1.0]), engine.tensor([-1.0, 1.0])
    assert all(change.status == "same" for change in Difference(recorded(a.log), recorded(a.log)).changes)
    found = Difference(recorded(a.log), recorded(b.log))
    assert any("NaN or Inf are at other positions" in change.words for change in found.changes)


def test_long_stretches_are_matched_in_order(monkeypatch):
    monkeypatch.setattr(difference, "PRECISE", 0)
    found = changes(recorded(mlp(nn.ReLU)), recorded(mlp(nn.ReLU, twice=True)))
    assert "mul" in found["added"] and not found["removed"]


def test_a_module_called_in_a_loop_stays_a_call_each_time():
    cell = nn.Linear(3, 3)

    def program(n):
        x = engine.ones(2, 3)
        for _ in range(n):
            x = cell(x)

    found = Difference(recorded(lambda: program(2)), recorded(lambda: program(4)))
    assert sum(scope.kind == "module" for scope in found.scopes) == 4
    assert sum(change.status == "added" and found.op_name(row) == "addmm" for row, change in enumerate(found.changes)) in (0, 2)


def test_wb_diff_finds_the_last_two_and_says_when_there_are_none():
    with wb.record("first") as first:
        engine.ones(2) + 1
    with wb.record("second") as second:
        engine.ones(2) * 2
    shown = wb.diff()
    assert first.recording is shown.recording.before
    assert "first → second" in repr(shown) and "add became mul" in repr(shown)
    graph, flags, *_ = shown.handle({"type": "ready", "v": 1, "id": 1})
    assert graph[0]["view"] == "difference" and {flag["glyph"] for flag in flags[0]["flags"]} <= {"+", "−", "≠"}
    with pytest.raises(TypeError, match="not int"):
        wb.diff(3, second)
