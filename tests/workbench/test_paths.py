"""Paths: contributions add up to the gradient exactly, and each is what its own chain of Jacobians gives."""

from __future__ import annotations

import re

import numpy
import pytest
from walked import PROGRAMS, leaf

import engine
import workbench as wb
from workbench.backward.stepper import Stepper
from workbench.recording.recompute import Cannot
from workbench.recording.retrace import retrace
from workbench.session.session import Session
from workbench.whatif.ask import row_of
from workbench.whatif.contributions import paths
from workbench.whatif.ground import ground_of_tensor


def test_the_contributions_of_whole_numbers_add_up_exactly():
    x = engine.tensor([1.0, 2.0, 3.0], dtype=engine.float64, requires_grad=True)
    a = x * 2
    b = a * x
    loss = (a + b + x).sum()
    found = wb.whatif.paths(loss, x)
    # d/dx (2 x + 2 x² + x): four paths give 2, 2 x (through a), 2 x (directly), 1
    assert found.count == 4
    assert sorted(tuple(p.contribution) for p in found.listed) == [(1, 1, 1), (2, 2, 2), (2, 4, 6), (2, 4, 6)]
    total = sum(p.contribution for p in found.listed)
    assert total.tolist() == found.gradient.tolist() == [7, 11, 15]
    assert sum(p.share for p in found.listed) == pytest.approx(1, abs=1e-12)


def test_a_tensor_that_is_taken_twice_is_named_by_its_place():
    x = engine.tensor([1.0, 2.0], requires_grad=True)
    with wb.record() as recorded:
        loss = (x * x).sum()
    found = wb.whatif.paths(loss, x)
    places = [re.findall(r"\(input \d\)", " ".join(p.names(recorded.recording))) for p in found.listed]
    assert sorted(places) == [["(input 1)"], ["(input 2)"]]
    w = engine.ones(2)
    with wb.record() as recorded:
        loss = (x * w).sum()
    (only,) = wb.whatif.paths(loss, x).listed
    assert "(input" not in " ".join(only.names(recorded.recording))


def test_the_residual_and_the_branch_are_told_apart():
    w, x = engine.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=engine.float64, requires_grad=True), leaf(1, 2).to(engine.float64).detach()
    x.requires_grad_()
    h = (x @ w).tanh()
    loss = (x + h).sum()
    found = wb.whatif.paths(loss, x)
    through = next(p for p in found.listed if len(p.rows) > 3)
    direct = next(p for p in found.listed if len(p.rows) == 3)
    assert direct.contribution.tolist() == [[1, 1]]
    slope = 1 - numpy.tanh(x.detach().numpy() @ w.detach().numpy()) ** 2
    numpy.testing.assert_allclose(through.contribution, slope @ w.detach().numpy().T, rtol=1e-12)


@pytest.mark.parametrize("most", [1, 3, 12, 60])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_contributions_add_up_however_few_are_listed(program, most):
    leaves, run = program()
    loss = run()
    recording = retrace([loss.node], [loss])
    for x in leaves:
        found = paths(ground_of_tensor(recording, loss), row_of(recording, x), most)
        scale = max(float(numpy.abs(p.contribution).max()) for p in found.listed)
        numpy.testing.assert_allclose(sum(p.contribution for p in found.listed), found.gradient, rtol=1e-4, atol=1e-5 * scale)
        assert sum(p.share for p in found.listed) == pytest.approx(1, abs=1e-3)
        assert sum(p.paths for p in found.listed) == found.count
        assert all(p.rows[-1] == row_of(recording, x) for p in found.listed)
    run().backward()
    numpy.testing.assert_allclose(found.gradient, leaves[-1].grad.numpy(), rtol=1e-6)


def test_a_deep_net_has_more_paths_than_can_be_listed():
    w = engine.tensor(numpy.full((2, 2), 0.5), requires_grad=True)
    h = engine.ones(1, 2, dtype=engine.float64)
    for _ in range(100):
        z = h @ w
        h = z.tanh() + z
    loss = h.sum()
    found = wb.whatif.paths(loss, w, 12)
    # the weight at step k is reached by 2 ** (100 - k + 1) paths, through tanh or past it at each step after it
    assert found.count == sum(2 ** (k + 1) for k in range(100))
    assert "paths lead from the loss" in found.sentence
    numpy.testing.assert_allclose(sum(p.contribution for p in found.listed), found.gradient, rtol=1e-9)


def test_a_node_in_between_and_the_loss_itself():
    x = leaf(3)
    y = x.exp()
    loss = (y * y).sum()
    found = wb.whatif.paths(loss, y)
    assert found.count == 2 and [round(p.share, 6) for p in found.listed] == [0.5, 0.5]
    itself = wb.whatif.paths(loss, loss)
    assert itself.count == 1 and itself.listed[0].share == 1
    with pytest.raises(Cannot, match="does not occur"):
        wb.whatif.paths(loss, leaf(3, seed=4))


def test_a_hook_is_named_where_shares_do_not_add_up():
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    assert "Hooks change gradients" in wb.whatif.paths(y.sum(), x).note


def test_paths_travel():
    x = leaf(3)
    loss = (x * x + x.exp() * x).sum()
    recording = retrace([loss.node], [loss])
    session = Session(recording)
    session.step_through(Stepper.of(recording, session.graph, loss))
    session.stepper.prepare()
    row = row_of(recording, x)
    ((message, _),) = session.handle({"type": "ask_paths", "v": 1, "id": 1, "node": row, "most": 2})
    assert message["type"] == "paths"
    assert sum(p["share"] for p in message["listed"]) + message["rest_share"] == pytest.approx(1)
    assert message["listed"][0]["nodes"][-1] == row
    assert message["gradient"]["norm"] == pytest.approx(
        float(numpy.linalg.norm(2 * x.detach().numpy() + numpy.exp(x.detach().numpy()) * (1 + x.detach().numpy()))), rel=1e-5
    )
