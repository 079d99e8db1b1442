"""Stepping: exact against `.backward()`, exact back and forth, and safe when something interrupts it."""

from __future__ import annotations

import gc
import math
import weakref
from unicodedata import normalize

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from walked import PROGRAMS, added_to, bits, fan_out, leaf, tanh_layer, unrolled

import engine
from engine import nn
from engine.base import observe
from engine.utils.checkpoint import checkpoint
from workbench.backward.stepper import PassEnded, Stepper
from workbench.formulas import typeset
from workbench.graph.graph import Graph
from workbench.recording.recorder import Recorder
from workbench.recording.retrace import retrace

every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)


def stepper_of(loss, **options) -> Stepper:
    recording = retrace([loss.node], [loss])
    graph = Graph(recording)
    graph.finish({})
    return Stepper.of(recording, graph, loss, **options)


def expected(program) -> tuple[list, object, list]:
    """The leaves without gradients, a fresh loss, and the gradients that backward() gives."""
    leaves, run = program()
    run().backward()
    wanted = bits(leaves)
    for x in leaves:
        x.grad = None
    return leaves, run(), wanted


@every_program
def test_a_finished_pass_leaves_what_backward_leaves(program):
    leaves, loss, wanted = expected(program)
    stepper = stepper_of(loss)
    stepper.finish()
    assert stepper.done
    assert bits(leaves) == wanted


@every_program
def test_every_step_forth_and_back_again_is_exact(program):
    leaves, loss, wanted = expected(program)
    stepper = stepper_of(loss)
    states = [[x.grad for x in leaves]]
    while not stepper.done:
        stepper.next()
        states.append([x.grad for x in leaves])
    assert bits(leaves) == wanted
    for state in reversed(states[:-1]):
        stepper.previous()
        assert all(x.grad is g for x, g in zip(leaves, state, strict=True))  # the very tensors
    assert stepper.index == 0
    stepper.finish()
    assert bits(leaves) == wanted


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(-2, 40), max_size=12))
def test_any_walk_ends_exactly(walk):
    leaves, loss, wanted = expected(unrolled)
    stepper = stepper_of(loss)
    for index in walk:
        assert stepper.to(index) == max(0, min(index, stepper.total))
    stepper.finish()
    assert bits(leaves) == wanted
    stepper.to(0)
    assert [x.grad for x in leaves] == [None] * len(leaves)


def test_gradients_that_were_there_are_added_to_and_put_back():
    leaves, run, wanted = added_to(tanh_layer)
    before, values = [x.grad for x in leaves], bits(leaves)
    stepper = stepper_of(run())
    stepper.finish()
    assert bits(leaves) == wanted
    stepper.to(0)
    assert all(x.grad is g for x, g in zip(leaves, before, strict=True))
    assert bits(leaves) == values


def test_a_prepared_pass_outlives_what_the_program_does_next():
    leaves, loss, wanted = expected(tanh_layer)
    stepper = stepper_of(loss)
    stepper.prepare()
    assert stepper.index == 0 and all(x.grad is None for x in leaves)
    with engine.no_grad():
        for x in leaves:
            x.mul_(0)  # what an optimizer does
    stepper.finish()
    assert bits(leaves) == wanted
    assert len(stepper.steps(set())) == stepper.total


def test_a_pass_that_cannot_be_prepared_can_be_walked_as_far_as_it_goes():
    x = leaf(2)
    y = x.exp()
    loss = (y * 2).sum()
    y.add_(1)
    stepper = stepper_of(loss)
    stepper.prepare()
    assert stepper.to(2) == 2 and x.grad is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        stepper.next()
    assert stepper.index == 2


def test_closing_in_mid_pass_puts_gradients_back_and_a_finished_pass_stays():
    leaves, loss, wanted = expected(tanh_layer)
    stepper = stepper_of(loss)
    stepper.to(stepper.total - 1)
    assert any(x.grad is not None for x in leaves)
    stepper.close()
    assert all(x.grad is None for x in leaves)
    with pytest.raises(PassEnded, match="closed"):
        stepper.next()
    stepper = stepper_of(loss)
    stepper.finish()
    stepper.close()
    assert bits(leaves) == wanted


def test_a_terminal_is_told_where_the_pass_stands():
    _, loss, _ = expected(tanh_layer)
    stepper = stepper_of(loss)
    assert repr(stepper) == f"At the start of the backward pass: {stepper.total} steps."
    stepper.next()
    assert repr(stepper).startswith(f"Step 1 of {stepper.total}, ")
    stepper.close()
    assert repr(stepper) == "A backward pass that is closed."


@every_program
def test_every_node_can_be_run_to(program):
    _, loss, _ = expected(program)
    stepper = stepper_of(loss)
    for row in set(stepper.plan):
        stepper.to(0)
        stepper.to(stepper.place_of(row))
        assert stepper.plan[stepper.index - 1] == row


def test_a_node_outside_the_pass_is_refused():
    recorder = Recorder()
    with observe.observing(recorder):
        x = leaf(2)
        aside = x.exp()
        loss = (x * 2).sum()
    r = recorder.stop()
    stepper = Stepper.of(r, Graph(r), loss)
    with pytest.raises(PassEnded, match="does not reach"):
        stepper.place_of(r.find(aside))


@pytest.mark.parametrize("interrupted", range(8))
def test_an_interrupt_loses_nothing(interrupted):
    leaves, loss, wanted = expected(tanh_layer)
    stepper = stepper_of(loss)
    stepper.to(min(interrupted, stepper.total - 1))
    here, state = stepper.index, [x.grad for x in leaves]
    real = stepper._steps

    def stopped():
        next(real)
        raise KeyboardInterrupt
        yield

    stepper._steps = stopped()
    with pytest.raises(KeyboardInterrupt):
        stepper.next()
    assert stepper.index == here
    assert all(x.grad is g for x, g in zip(leaves, state, strict=True))
    stepper.finish()
    assert bits(leaves) == wanted
    stepper.to(0)
    assert all(x.grad is None for x in leaves)


def test_retained_gradients_are_stepped_as_well():
    x = leaf(3)
    y = x * x
    y.retain_grad()
    stepper = stepper_of(y.sum())
    stepper.finish()
    numpy.testing.assert_array_equal(y.grad.numpy(), numpy.ones(3, numpy.float32))
    stepper.to(0)
    assert y.grad is None and x.grad is None


@pytest.mark.parametrize("prepared", [False, True], ids=["in a script", "in a notebook"])
def test_a_hook_fires_once_however_often_its_step_is_walked_over(prepared):
    """The table in docs/stepping.md: when the rules run and hooks fire, and when `.grad` changes."""
    x = leaf(3)
    seen: list[int] = []
    y = x * 2
    y.register_hook(lambda g: seen.append(1))
    stepper = stepper_of((y * y).sum())
    if prepared:  # what wb.step does where a page shows the pass
        stepper.prepare()
    assert (stepper.index, x.grad, len(seen)) == (0, None, int(prepared))
    for _ in range(3):
        stepper.to(stepper.total)
        numpy.testing.assert_allclose(x.grad.numpy(), 8 * x.detach().numpy(), rtol=1e-6)
        stepper.to(0)
        assert x.grad is None
    assert len(seen) == 1


def test_a_hook_that_changes_gradients_is_respected_in_both_directions():
    x = leaf(3)
    x.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", t.grad * 10))
    stepper = stepper_of((x * 2).sum())
    stepper.finish()
    numpy.testing.assert_array_equal(x.grad.numpy(), numpy.full(3, 20, numpy.float32))
    stepper.to(0)
    assert x.grad is None
    stepper.finish()
    numpy.testing.assert_array_equal(x.grad.numpy(), numpy.full(3, 20, numpy.float32))


def test_contributions_addends_and_totals_are_the_chain_rule():
    x = leaf(3)
    loss = (x * x + x).sum()
    stepper = stepper_of(loss)
    stepper.finish()
    steps = stepper.steps(set())
    row = stepper.recording.row_of(x.node)
    mine = [c for step in steps for c in step.contributions if c.target == row]
    assert [c.addends for c in mine] == [1, 2, 3]
    total = (2 * x.detach().numpy() + 1).astype(numpy.float64)
    assert mine[-1].total.norm == pytest.approx(float(numpy.linalg.norm(total)), rel=1e-6)
    accumulate = steps[-1]
    assert (accumulate.op, accumulate.node, accumulate.contributions) == ("accumulate", row, [])
    assert accumulate.upstream.norm == pytest.approx(float(numpy.linalg.norm(x.grad.numpy().astype(numpy.float64))), rel=1e-9)


def test_a_broadcast_input_says_which_axes_were_summed():
    x, b = leaf(4, 3), leaf(1, 3)
    stepper = stepper_of((x + b).sum())
    stepper.to(2)
    contributions = {c.input: c for c in stepper.step(2).contributions}
    assert contributions["other"].unbroadcast == [0]
    assert contributions["input"].unbroadcast == []
    assert contributions["other"].gradient.values == [4.0, 4.0, 4.0]


def test_gradients_can_be_looked_at_as_far_as_the_pass_stands():
    leaves, loss, wanted = expected(fan_out)
    stepper = stepper_of(loss)
    row = stepper.recording.row_of(leaves[0].node)
    assert stepper.gradient(row) == (None, "Its gradient has not been computed yet: step on, or run to this node.")
    stepper.finish()
    assert stepper.gradient(row)[0].tobytes() == wanted[0]


def test_arrays_over_the_budget_are_let_go_but_their_summaries_stay():
    leaves, loss, wanted = expected(unrolled)
    stepper = stepper_of(loss, keep=0)
    stepper.finish()
    assert len(stepper.steps(set())) == stepper.total
    assert bits(leaves) == wanted
    stepper.to(0)
    stepper.finish()
    assert bits(leaves) == wanted


def test_a_freed_graph_is_refused_at_once():
    x = leaf(2)
    loss = x.exp().sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="freed by an earlier backward"):
        stepper_of(loss)


def test_what_backward_refuses_is_refused():
    with pytest.raises(RuntimeError, match="scalar outputs"):
        stepper_of(leaf(2).exp())


def test_an_error_in_the_pass_stops_it_with_a_sentence():
    x = leaf(2)
    y = x.exp()
    loss = (y * 2).sum()
    y.add_(1)  # spoils what exp saved
    stepper = stepper_of(loss)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        stepper.finish()
    assert "stopped after step 2" in stepper.sentence()
    assert x.grad is None


def test_an_error_without_words_stops_the_pass_as_well():
    x = leaf(2)

    def refuse(grad):
        raise ArithmeticError

    x.register_hook(refuse)
    stepper = stepper_of(x.exp().sum())
    stepper.prepare()
    stepper.to(2)
    assert stepper.failed and "stopped after step 2 of 3: ArithmeticError" in stepper.sentence()


def test_a_thousand_steps_go_in_no_time_and_nothing_recurses():
    x = leaf(2)
    h = x
    for _ in range(5000):
        h = h + 1
    stepper = stepper_of(h.sum())
    stepper.finish()
    assert stepper.index == stepper.total == 5002
    stepper.to(0)
    assert x.grad is None


def test_a_stepper_that_is_dropped_frees_the_graph():
    gc.disable()
    try:
        x = leaf(100)
        loss = x.exp().sum()
        array = weakref.ref(loss.node.inputs[0].saved[1])
        stepper = stepper_of(loss)
        stepper.finish()
        del stepper, loss
        assert array() is None
    finally:
        gc.enable()


def test_the_numbers_of_a_small_step_are_right():
    x = engine.tensor(0.5).requires_grad_()
    stepper = stepper_of(x.tanh())
    stepper.next()
    (contribution,) = stepper.step(1).contributions
    assert contribution.gradient.values[0] == pytest.approx(1 - math.tanh(0.5) ** 2, rel=1e-6)
    assert contribution.rule.numbers is not None


def test_a_step_calls_what_has_no_name_as_the_graph_does_and_by_no_letter_of_another_tensor():
    """tanh is given the sum of the input named x: neither its sentence nor its rule may call that sum "input" or x."""
    x, w = engine.tensor(3.0), engine.tensor(0.5, requires_grad=True)
    loss = (w + x).tanh().square()
    recording = retrace([loss.node], [loss])
    graph = Graph(recording)
    graph.finish({"x": w, "loss": loss})
    stepper = Stepper.of(recording, graph, loss)
    stepper.to(2)
    step = stepper.step(2)
    assert step is not None and step.op == "tanh"
    assert "gradient of add gains" in step.sentence
    rules = step.forward.symbols, step.contributions[0].rule.symbols
    assert [normalize("NFC", typeset.as_text(rule)) for rule in rules] == ["z = tanh(y)", normalize("NFC", "ȳ += z̄ · (1 − z^2)")]


def test_a_step_with_many_inputs_is_told_in_one_breath():
    rows = [engine.ones(2, requires_grad=True) for _ in range(17)]
    stepper = stepper_of(engine.stack(rows).sum())
    stepper.to(2)
    step = stepper.step(2)
    assert step is not None and step.op == "stack" and len(step.contributions) == 17
    assert step.sentence.count("gains") == 4 and step.sentence.endswith("; 13 more inputs get theirs.")


def test_gradients_that_a_pass_inside_a_step_adds_go_back_and_forth_too():
    """Of a reentrant checkpoint the parameters are no leaves of the pass around it; two such share theirs here."""
    engine.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), engine.randn(2, 3, requires_grad=True)
    leaves = [*model.parameters(), x]

    def run():
        return checkpoint(model, checkpoint(model, x, use_reentrant=True), use_reentrant=True).sum()

    run().backward()
    wanted, seen = bits(leaves), []
    for p in leaves:
        p.grad = None
    stepper = stepper_of(run())
    stepper.prepare()
    assert bits(leaves) == [None] * 3
    for place in range(stepper.total + 1):
        stepper.to(place)
        seen.append(bits(leaves))
    assert seen[-1] == wanted and len({tuple(one) for one in seen}) == 4
    for place in (2, 0, 4, 1, 3, 0):
        stepper.to(min(place, stepper.total))
        assert bits(leaves) == seen[min(place, stepper.total)]
    stepper.finish()
    assert bits(leaves) == wanted


def test_what_was_put_forth_again_is_not_written_into_by_a_pass_inside_a_later_step():
    engine.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), engine.randn(2, 3, requires_grad=True)
    leaves = [*model.parameters(), x]
    stepper = stepper_of(checkpoint(model, checkpoint(model, x, use_reentrant=True), use_reentrant=True).sum())
    seen = [bits(leaves)]
    for here in range(1, stepper.total + 1):
        stepper.to(here)
        seen.append(bits(leaves))
        for place in (0, *range(here + 1), *range(here, -1, -1), here):
            stepper.to(place)
            assert bits(leaves) == seen[place], (here, place)
