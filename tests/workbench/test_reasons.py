"""Why is .grad None? Each reason is brought about by code that has it, and the sentence names the line."""

from __future__ import annotations

import inspect

import pytest

import engine
from engine import nn, optim
from engine.base import observe
from workbench.graph.graph import Graph
from workbench.recording import reasons
from workbench.recording.reasons import why_no_grad
from workbench.recording.recorder import Recorder


def recorded(run, **names):
    """The recording of `run()`, which returns the variables that it leaves behind."""
    recorder = Recorder()
    with observe.observing(recorder):
        left = run()
    recording = recorder.stop()
    Graph(recording).finish({**names, **(left or {})})
    recording.kept_alive = left  # type: ignore[attr-defined]
    return recording


def why(recording, what):
    """The reason for the row of a name or, where nothing has it, of the first op of that name."""
    by_name = [row for row, name in recording.names.items() if name == what and recording.kind[row] != "constant"]
    rows = by_name or [row for row in range(recording.count) if (recording.op_name(row) or recording.kind[row]) == what]
    return why_no_grad(recording, rows[-1] if by_name else rows[0])


def line_of(run, text):
    lines, first = inspect.getsourcelines(run)
    return first + next(i for i, line in enumerate(lines) if text in line)


def parameter(*shape):
    return engine.ones(*shape, requires_grad=True)


def test_a_number_and_whole_numbers_have_no_gradient():
    def run():
        n = engine.arange(3)
        m = n + 1
        return {"m": m}

    assert "int64; only floating-point" in why(recorded(run), "m")
    assert "A number has no gradient" in why(recorded(lambda: {"y": parameter(2) * 3.5}), "constant")


def test_an_op_that_failed_has_no_gradient():
    def run():
        w = parameter(2)
        with pytest.raises(RuntimeError):
            (w * 2).reshape(3)
        return {"w": w}

    assert why(recorded(run), "reshape") == "The op failed, so there is no result that could have a gradient."


def test_no_input_requires_grad():
    def run():
        plain = engine.ones(3)
        y = plain.exp()
        return {"plain": plain, "y": y}

    assert "does not require grad" in why(recorded(run), "plain")
    assert "None of the tensors it was computed from requires grad" in why(recorded(run), "y")


def test_requires_grad_was_set_after_it_had_been_used():
    def run():
        w = engine.ones(3)
        y = (w * 2).sum()
        w.requires_grad_()
        return {"w": w, "y": y}

    told = why(recorded(run), "w")
    assert "requires_grad was set after it had been used: mul" in told
    assert f"at line {line_of(run, 'w * 2')} of test_reasons.py" in told


def test_a_file_is_searched_once_for_what_detaches_however_many_tensors_ask():
    def run():
        w = parameter(2)
        y = w.exp().detach()
        return {"w": w, "y": y, "loss": (y * w).sum()}

    recording = recorded(run)
    reasons._detaches_in.cache_clear()
    for _ in range(5):
        why(recording, "y")
    told = reasons._detaches_in.cache_info()
    assert told.misses <= 2 and told.hits >= 4  # of this file, and of another whose code was recorded


def test_detached_at_a_line():
    def run():
        w = parameter(3)
        h = w.exp()
        cut = h.detach()
        y = (cut * w).sum()
        late = cut.tanh()
        y.backward()
        return {"w": w, "h": h, "cut": cut, "y": y, "late": late}

    r = recorded(run)
    at = f"detached from h at line {line_of(run, 'h.detach()')} of test_reasons.py, so no gradient passes."
    assert why(r, "cut") == "It was " + at
    assert why(r, "late").startswith("It was computed from cut, which was ") and why(r, "late").endswith(at)


@pytest.mark.parametrize("how", ["with", "decorator"])
def test_under_no_grad_the_line_that_opened_it_is_named(how):
    def block():
        w = parameter(3)
        with engine.no_grad():
            y = w.exp()
        return {"w": w, "y": y}

    @engine.no_grad()
    def evaluate(w):
        return w.exp()

    def decorated():
        w = parameter(3)
        y = evaluate(w)
        return {"w": w, "y": y}

    if how == "with":
        told = why(recorded(block), "y")
        assert f"computed at line {line_of(block, 'w.exp()')} of test_reasons.py under engine.no_grad() of line" in told
        assert f"of line {line_of(block, 'with engine.no_grad')}" in told
    else:
        assert "under engine.no_grad() of line" in why(recorded(decorated), "y")


def test_an_op_without_derivative_and_a_cast_to_whole_numbers():
    def run():
        w = parameter(3)
        mask = w > 0
        back = mask.float()
        return {"w": w, "mask": mask, "back": back}

    r = recorded(run)
    assert "bool; only floating-point" in why(r, "mask")
    assert "It was computed from mask, which" in why(r, "back") and "gt at line" in why(r, "back")


def test_the_loss_does_not_depend_on_it_and_where_the_path_ends():
    def run():
        w, v = parameter(3), parameter(3)
        side = w.tanh()
        frozen = side.detach()
        loss = (v * frozen).sum()
        loss.backward()
        return {"w": w, "v": v, "side": side, "frozen": frozen, "loss": loss}

    r = recorded(run)
    r.root = next(row for row, name in r.names.items() if name == "loss")
    told = why(r, "w")
    assert "The loss does not depend on it" in told
    assert "frozen, was" in told and f"detached from side at line {line_of(run, 'side.detach()')}" in told

    def unused():
        w, v = parameter(3), parameter(3)
        w.tanh()
        loss = v.sum()
        return {"w": w, "v": v, "loss": loss}

    r = recorded(unused)
    r.root = next(row for row, name in r.names.items() if name == "loss")
    assert why(r, "w") == "The loss does not depend on it, so no gradient reaches it."
    assert "Nothing that was recorded uses it" in why_no_grad(r, next(i for i in range(r.count) if r.op_name(i) == "tanh"))


def test_backward_has_not_run_yet():
    def run():
        w = parameter(3)
        h = w.exp()
        return {"w": w, "h": h, "loss": h.sum()}

    r = recorded(run)
    assert why(r, "w") == "Backward has not run yet."
    assert "Backward has not run yet" in why(r, "h") and "It is no leaf: exp at line" in why(r, "h")


def test_no_leaf_and_retain_grad_missing():
    def run():
        w = parameter(3)
        h = w.exp()
        h.sum().backward()
        return {"w": w, "h": h}

    told = why(recorded(run), "h")
    assert f"It is no leaf: exp at line {line_of(run, 'w.exp()')} of test_reasons.py made it" in told and "retain_grad()" in told


def test_the_name_was_given_to_a_new_tensor():
    def run():
        w = parameter(3)
        (w * w).sum().backward()
        w = w - 0.1 * w.grad
        return {"w": w}

    told = why(recorded(run), "w")
    assert f"w is no leaf any more: sub at line {line_of(run, 'w = w - ')} of test_reasons.py made a new tensor" in told
    assert "no_grad(): w -= ..." in told


def test_a_tensor_that_was_written_in_place():
    def run():
        w = parameter(3)
        h = w + 1
        h.mul_(2)
        h.sum().backward()
        return {"w": w, "h": h}

    r = recorded(run)
    old = next(row for row in range(r.count) if r.op_name(row) == "add")
    new = next(row for row in range(r.count) if r.note[row] == "in place")
    assert f"as it was before mul overwrote it at line {line_of(run, 'h.mul_')} of test_reasons.py" in why_no_grad(r, old)
    assert "the tensor of now is the result of mul" in why_no_grad(r, old)
    assert "It is no leaf since mul overwrote it" in why_no_grad(r, new)


@pytest.mark.parametrize("how", ["zero_grad", "assignment"])
def test_the_gradient_was_set_to_none_since(how):
    def zeroed():
        model = nn.Linear(2, 1)
        opt = optim.SGD(model.parameters(), lr=0.1)
        model(engine.ones(4, 2)).sum().backward()
        opt.step()
        opt.zero_grad()
        return {"model": model, "opt": opt}

    def assigned():
        w = parameter(3)
        w.exp().sum().backward()
        w.grad = None
        return {"w": w}

    run, name, text = (zeroed, "weight", "opt.zero_grad()") if how == "zero_grad" else (assigned, "w", "w.grad = None")
    told = why(recorded(run), name)
    assert "It received a gradient in the recorded backward pass, and .grad was set back to None since" in told
    assert f"`{text}`" in told and "line" in told


def test_backward_ran_and_missed_it():
    def run():
        w, v = parameter(3), parameter(3)
        a, b = w.sum(), v.sum()
        b.backward()
        return {"w": w, "v": v, "a": a, "b": b}

    assert why(recorded(run), "w").startswith("Backward has run, but no gradient reached it")
