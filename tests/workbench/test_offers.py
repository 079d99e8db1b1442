"""A backward pass that the code has not run, begun from the view: it changes no `.grad`, and leaves the program's own pass as it was."""

from __future__ import annotations

import numpy
import pytest

import engine
import workbench as wb
from engine import nn
from workbench import protocol
from workbench.backward import offers


def begin(session, row):
    return session.handle(protocol.StepTo(1, "begin", row).to_json())[0][0]


def watched():
    w, b = engine.ones(3, requires_grad=True), engine.zeros(3, requires_grad=True)
    with wb.watch() as watch:
        h = (w * 2 + b) ** 2
        loss = h.sum()
    return watch.session, w, b, h, loss


def told_of(session):
    return [message for message, _ in session.handle(protocol.Ready(1).to_json()) if message["type"] == "offer"]


def test_the_loss_is_offered_and_begins_without_touching_a_gradient():
    session, w, b, h, loss = watched()
    row = session.recording.row_of(loss.node)
    assert [offer["roots"] for offer in told_of(session)] == [[row]]
    answer = begin(session, row)
    assert answer["type"] == "stepped" and (answer["index"], answer["total"]) == (0, 6)
    assert not told_of(session)  # there is a pass now
    session.stepper.finish()
    assert w.grad is None and b.grad is None
    assert "the gradient of w (norm 13.86) is complete; w.grad stays as it is." in session.stepper.sentence()
    gradient, _ = session.stepper.gradient(session.recording.find(w))
    numpy.testing.assert_array_equal(gradient, [8.0, 8.0, 8.0])  # 2 (2 w + b) 2
    loss.backward()
    session.stepper.to(0)
    session.close()
    numpy.testing.assert_array_equal(w.grad, [8.0, 8.0, 8.0])


def test_a_gradient_that_is_there_is_not_added_to():
    session, w, b, h, loss = watched()
    (w * 5).sum().backward()
    begin(session, session.recording.row_of(loss.node))
    session.stepper.finish()
    numpy.testing.assert_array_equal(w.grad, [5.0, 5.0, 5.0])


def test_what_is_no_scalar_or_goes_into_another_tensor_is_not_offered():
    w = engine.ones(3, requires_grad=True)
    with wb.watch() as watch:
        a = w.sum()
        two, one = (a * 2).sqrt(), (a - w) ** 2
        count = (w > 0).sum()
        total = two.detach() + 1
    session = watch.session
    assert offers.roots(session.recording) == [session.recording.row_of(two.node)]
    del one, count, total


def test_several_losses_are_offered_the_last_one_first():
    w = engine.ones(3, requires_grad=True)
    with wb.watch() as watch:
        first, second = w.sum(), (w * 2).mean()
    r = watch.session.recording
    assert offers.roots(r) == [r.row_of(second.node), r.row_of(first.node)]


def test_a_loss_whose_graph_was_freed_is_not_offered_and_says_why():
    session, w, b, h, loss = watched()
    row = session.recording.row_of(loss.node)
    loss.backward()
    assert not told_of(session)
    assert "The graph was freed by an earlier backward()" in begin(session, row)["sentence"]
    numpy.testing.assert_array_equal(w.grad, [8.0, 8.0, 8.0])


def test_a_loss_that_the_program_has_let_go_of_says_so():
    session, w, b, h, loss = watched()
    row = session.recording.row_of(loss.node)
    del loss
    assert not told_of(session)
    assert begin(session, row)["sentence"] == offers.GONE


def test_a_loss_without_a_size_of_one_says_what_to_do():
    session, w, b, h, loss = watched()
    assert "Reduce it first, e.g. with .sum()" in begin(session, session.recording.row_of(h.node))["sentence"]


def test_nothing_begins_while_a_cell_runs():
    session, w, b, h, loss = watched()
    session.busy = lambda: True
    assert begin(session, session.recording.row_of(loss.node))["sentence"].startswith("The kernel is running a cell.")
    assert session.stepper is None


def test_two_views_that_begin_have_one_pass():
    session, w, b, h, loss = watched()
    row = session.recording.row_of(loss.node)
    begin(session, row)
    one = session.stepper
    one.next()
    assert begin(session, row)["index"] == 1 and session.stepper is one


def test_the_pass_can_be_walked_through_after_the_optimizer_has_stepped():
    session, w, b, h, loss = watched()
    begin(session, session.recording.row_of(loss.node))
    with engine.no_grad():
        w.zero_()
        h.zero_()
    session.stepper.finish()
    gradient, _ = session.stepper.gradient(session.recording.find(b))
    numpy.testing.assert_array_equal(gradient, [4.0, 4.0, 4.0])


def test_a_step_that_fails_can_be_looked_at():
    class Broken(engine.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("out of ideas")

    w = engine.ones(3, requires_grad=True)
    with wb.watch() as watch:
        loss = Broken.apply(w).sum()
    session = watch.session
    begin(session, session.recording.row_of(loss.node))
    session.handle(protocol.StepTo(2, "next").to_json())
    answers = session.handle(protocol.StepTo(3, "next").to_json())
    assert "out of ideas" in answers[0][0]["sentence"] and session.stepper.index == 1


def test_a_file_offers_nothing(tmp_path):
    session, w, b, h, loss = watched()
    wb.export(tmp_path / "graph.html", session)
    assert '"offer"' not in (tmp_path / "graph.html").read_text()


def test_every_lesson_model_gives_the_gradients_of_backward():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    x, y = engine.randn(2, 1, 8, 8), engine.randint(0, 10, (2,))
    with wb.watch() as watch:
        loss = nn.functional.cross_entropy(model(x), y)
    session = watch.session
    begin(session, session.recording.row_of(loss.node))
    session.stepper.finish()
    found = [session.stepper.gradient(session.recording.find(p))[0] for p in model.parameters()]
    loss.backward()
    for p, gradient in zip(model.parameters(), found, strict=True):
        numpy.testing.assert_array_equal(p.grad, gradient)


@pytest.mark.torch
def test_a_loss_of_pytorch_is_offered_and_its_pass_is_a_record():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 1)
    with wb.watch(model) as watch:
        loss = (model(torch.ones(2, 3)) ** 2).mean()
    session = watch.session
    row = session.recording.row_of(loss.grad_fn)
    assert [offer["roots"] for offer in told_of(session)] == [[row]]
    answer = begin(session, row)
    assert answer["type"] == "stepped" and answer["index"] == 0 and session.stepper.is_record
    session.stepper.finish()
    assert model.weight.grad is None
    found, _ = session.stepper.gradient(session.recording.find(model.weight))
    loss.backward()  # the graph is still there
    numpy.testing.assert_allclose(found, model.weight.grad.numpy())


@pytest.mark.torch
def test_a_freed_graph_of_pytorch_says_so():
    torch = pytest.importorskip("torch")
    w = torch.ones(3, requires_grad=True)
    with wb.watch() as watch:
        loss = (w * w).sum()
    row = watch.session.recording.row_of(loss.grad_fn)
    loss.backward()
    assert "The graph was freed by an earlier backward()" in begin(watch.session, row)["sentence"]


@pytest.mark.torch
def test_no_hook_is_left_in_the_graph_of_pytorch():
    torch = pytest.importorskip("torch")
    w = torch.ones(3, requires_grad=True)
    with wb.watch() as watch:
        loss = (w * w).sum()
    session = watch.session
    begin(session, session.recording.row_of(loss.grad_fn))
    assert not session.recording.hooks
