"""Forward against reverse mode: what each pass costs, against counting by hand."""

from __future__ import annotations

import inspect
import json

import numpy
import pytest

import engine
import engine.nn.functional as F
import workbench as wb
from engine import nn

W, A = engine.tensor(numpy.arange(12.0).reshape(3, 4) / 7), engine.tensor(numpy.arange(15.0).reshape(5, 3) / 9)
POINT = engine.tensor([0.5, -1.0, 2.0, 0.3], dtype=engine.float64)
# function, (multiplications, additions) of one forward pass, of one reverse pass; counted by hand from the derivative
BY_HAND = {
    "x·x": (lambda x: x * x, (8, 4), (8, 4)),
    "tanh": (engine.tanh, (8, 4), (8, 4)),  # t·(1 − y·y)
    "W x": (lambda x: W @ x, (12, 9), (12, 8)),  # 3×4 by 4, and 4×3 by 3
    "sum": (lambda x: x.sum(), (0, 3), (0, 0)),
    "A tanh(W x)": (lambda x: (A @ engine.tanh(W @ x)).sum(), (12 + 6 + 15, 9 + 3 + 10 + 4), (15 + 6 + 12, 12 + 3 + 8)),
}


def by_differences(f, x):
    """The Jacobian by central differences in float64."""
    columns = []
    for j in range(x.numel()):
        nudge = engine.zeros(4, dtype=engine.float64)
        nudge[j] = 1e-6
        columns.append(((f(x + nudge) - f(x - nudge)) / 2e-6).numpy().reshape(-1))
    return numpy.stack(columns, 1)


@pytest.mark.parametrize("name", BY_HAND)
def test_costs_are_those_counted_by_hand(name):
    f, forward, reverse = BY_HAND[name]
    found = wb.teach.modes(f, POINT).modes
    assert (found.forward.each.multiplications, found.forward.each.additions) == forward
    assert (found.reverse.each.multiplications, found.reverse.each.additions) == reverse
    outputs = f(POINT).numel()
    assert (found.inputs, found.outputs, found.forward.passes, found.reverse.passes) == (4, outputs, 4, outputs)
    assert found.forward.total.multiplications == 4 * forward[0] and found.reverse.total.additions == outputs * reverse[1]


@pytest.mark.parametrize(
    "name, told",
    [
        ("W x", "fewer than about 11 inputs for every 12 outputs"),  # (12 + 8) / (12 + 9) = 20/21
        ("x·x", "fewer inputs than outputs"),
        ("sum", "One forward pass takes 3 operations, one reverse pass 0."),
        (
            "expand",
            "takes 1 operation, one reverse pass 301. Forward mode is the cheaper one as long as there are fewer than 301 inputs for each",
        ),
    ],
)
def test_the_number_of_inputs_up_to_which_forward_mode_is_cheaper_is_in_whole_numbers(name, told):
    f = BY_HAND[name][0] if name in BY_HAND else (lambda x: (x[:1] * 2).expand(301))
    assert told in wb.teach.modes(f, POINT).modes.crossover


FUNCTIONS = {
    **{name: f for name, (f, _, _) in BY_HAND.items()},
    "softmax": lambda x: F.log_softmax(x, 0),  # its push is the transpose of its pull
    "norm": lambda x: x.norm(),
    "sort": lambda x: x.sort().values * x,
    "einsum": lambda x: engine.einsum("ij,j->i", W, x),
    "views": lambda x: engine.stack([x[0] * x[1], x[2].sin()]),
    "in place": lambda x: x.clone().mul_(3.0)[1:],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_modes_give_the_jacobian_step_by_step(name):
    from workbench.teach.jacobian import Jacobian, jacobian_of

    f = FUNCTIONS[name]
    session = wb.teach.modes(f, POINT)
    y, inputs = jacobian_of(f, [POINT])
    j = Jacobian(y, inputs, ["x"], session.recording)
    truth = by_differences(f, POINT)
    assert numpy.allclose(numpy.stack([j.forward(i)[1] for i in range(j.n)], 1), truth, atol=1e-6)
    assert numpy.allclose(numpy.stack([j.reverse(i)[1] for i in range(j.m)]), truth, atol=1e-6)
    # a linear map and its transpose take the same multiplications
    if name not in ("views", "sort"):
        assert session.modes.forward.each.multiplications == session.modes.reverse.each.multiplications
    for one in (session.modes.forward, session.modes.reverse):
        assert sum(step.cost.additions for step in one.shown[0].steps) == one.each.additions
        assert all(-1 < step.node < session.recording.count for step in one.shown[0].steps)
    called = next(iter(inspect.signature(f).parameters))
    assert session.modes.forward.shown[1].seed == f"{called}[1]"


def test_the_graph_of_both_modes_has_the_functions_own_names_values_and_lines():
    scale = engine.tensor([2.0, 3.0])

    def curve(t, u):
        return (scale * t).cos() + u

    session = wb.teach.modes(curve, engine.tensor(0.5), engine.tensor(1.0))
    r = session.recording
    assert {"t", "u", "scale", "y"} <= set(r.names.values()) and r.title == "curve"
    cos = next(row for row in range(r.count) if r.op_name(row) == "cos")
    assert numpy.allclose(r.value(cos), numpy.cos([1.0, 1.5]))
    assert session.graph.sites[session.graph.site(cos)].text == "return (scale * t).cos() + u"
    assert [one.seed for one in session.modes.forward.shown] == ["t", "u"]
    with wb.record() as watched:  # who watches already goes on watching
        wb.teach.modes(curve, engine.tensor(0.5), engine.tensor(1.0))
    assert "cos" in {watched.recording.op_name(row) for row in range(watched.recording.count)}


def test_a_recording_around_it_has_the_function_and_not_the_counting():
    model = nn.Linear(4, 3)
    with wb.record() as around:
        wb.teach.modes(model, engine.ones(4))
    assert [op.name for op in around.recording.ops if op is not None] == ["clone", "linear"]
    assert wb.check(around).findings == []


def test_counting_changes_nothing_and_the_report_reads():
    lin = nn.Linear(4, 2)
    text = repr(wb.teach.modes(lambda x: lin(x[None]).tanh().sum(), engine.ones(4)))
    assert "From 4 numbers to 1: reverse mode takes 1 pass and" in text and "passes" in text
    assert lin.weight.grad is None
    assert "both modes take 0" in repr(wb.teach.modes(lambda x: x.reshape(2, 2), engine.ones(4)))
    for wrong, error in (((lambda x: 3.0), TypeError), ((lambda x: x.detach()), ValueError), ((lambda x: x.expand(200, 100)), ValueError)):
        with pytest.raises(error):
            wb.teach.modes(wrong, engine.ones(1) if error is ValueError else engine.ones(2))
    with pytest.raises(ValueError, match="floating-point"):
        wb.teach.modes(lambda x: x, engine.arange(3))
    with pytest.raises(TypeError, match="wb.teach.modes"):
        wb.teach.modes(lambda x: x)
    wide = wb.teach.modes(lambda x: x.expand(100) * 2, engine.ones(1)).modes
    assert wide.sentence.startswith("From 1 number to 100: forward mode takes 1 pass and")
    json.dumps(wide.to_json())
