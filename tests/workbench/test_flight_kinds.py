"""Trainings of many kinds: a repeated step equals the original bit for bit, in this process and from the file."""

from __future__ import annotations

import gc
import math
import random
import re
import runpy
import weakref
from importlib import import_module
from types import SimpleNamespace

import numpy
import pytest
from flight_programs import KINDS, SCRIPT, SEEN, error, loader, net, step

import engine
import workbench as wb
from workbench.flights import log, prints, recorder, values

COMPILES = prints.compiles


@pytest.fixture(params=["engine", pytest.param("torch", marks=pytest.mark.torch)])
def E(request):
    return import_module(request.param)


@pytest.fixture(autouse=True)
def a_snapshot_whenever_there_is_room(monkeypatch):
    """However slow the machine is; steps in between are there, too."""
    monkeypatch.setattr(recorder, "SHARE", math.inf)
    monkeypatch.setattr(prints, "compiles", lambda: False)  # other tests may have compiled something
    SEEN.clear()


def bits(flight, E):
    """The bits of all that the training consists of, read without the recorder's copies."""
    s = flight._subjects
    tensors = [t for x in s.modules.values() for t in x.state_dict().values()]
    tensors += [p for o in s.optimizers.values() for group in o.param_groups for p in group["params"]]
    tensors += [t for o in s.optimizers.values() for group in o.param_groups for p in group["params"] for t in flat(o.state.get(p, {}))]
    grads = [t.grad for x in s.modules.values() for t in x.parameters()]
    rest = [repr(x.state_dict()) for x in s.others.values()] + [repr(vars(x)) for x in s.objects.values()]
    rest += [repr([{k: v for k, v in g.items() if k != "params"} for g in o.param_groups]) for o in s.optimizers.values()]
    rest += [repr(x.get_state()) for x in s.values.values() if hasattr(x, "get_state")]
    chance = random.getstate(), repr(numpy.random.get_state()), E.get_rng_state().numpy().tobytes()
    named = {"tensors": tensors, "gradients": grads}
    return {k: hash(tuple(None if t is None else raw(t) for t in x)) for k, x in named.items()} | {"rest": rest, "chance": hash(chance)}


def flat(state):
    if isinstance(state, dict | list | tuple):
        return [t for x in (state.values() if isinstance(state, dict) else state) for t in flat(x)]
    return [state] if hasattr(state, "detach") else []


def raw(t):
    t = t.detach()
    return repr(t) if t.is_sparse or "Uninitialized" in type(t).__name__ else t.reshape(-1).float().numpy().tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_step_is_the_original(E, kind, tmp_path):
    train, path = KINDS[kind], str(tmp_path / "run.flight")
    flight = train(E, path)
    original, before = SEEN.copy(), bits(flight, E)
    assert flight.count == len(original)
    for one in flight.steps:
        assert len(one.losses) != 1 or numpy.float32(one.loss).tobytes() == original[one.number][0][:4], one
    file = wb.open(flight.save())
    for flown, program in ((flight, None), (file, lambda: train(E, path))):
        for one in (flown.steps[-1], flown.steps[1]):
            SEEN.clear()
            again = flown.repeat(one, program)
            assert again.same, again
            assert SEEN and all(a == b for a, b in zip(SEEN, original[one.number + 1 - len(SEEN) : one.number + 1], strict=True))
            assert "gradients" in again.compared and again.losses == one.losses
            assert bits(flight, E) == before


# -- what else must hold, and what cannot be repeated --------------------------------------------------------------------------


def begun(E):
    E.manual_seed(0)
    model = net(E)
    return model, E.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def test_training_goes_on_from_a_step_as_it_did(E):
    model, optimizer = begun(E)
    with wb.flight(model, optimizer) as flight:
        for x, y in loader(E):
            step(error(E, model, E.nn.functional.dropout(x), y), optimizer, model)
    original, at = SEEN.copy(), flight.steps[2]
    flight.resume(at)
    SEEN.clear()
    for x, y in flight.batches(at):
        step(error(E, model, E.nn.functional.dropout(x), y), optimizer, model)
    assert original[at.number :] == SEEN and len(SEEN) == 6 - at.number


def test_a_file_is_repeated_by_its_script(E, tmp_path):
    path = str(tmp_path / "run.flight")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(E=E.__name__, path=path) + "flight.save()\n")
    runpy.run_path(str(script), run_name="__main__")
    original = SEEN.copy()
    SEEN.clear()
    script.write_text("import math  # the lines have moved\n\n" + script.read_text())
    again = wb.open(path).repeat(-2, program=str(script))
    assert again.same and SEEN[-1] == original[-2]


def test_a_cell_is_repeated_with_the_models_of_other_cells(E):
    cells = [
        "model, optimizer = begun(E)\nturns, losses = 0, []",
        "def learn(x, y):\n    global turns\n    turns += 1\n    losses.append(turns)\n    step(error(E, model, x, y) / turns, optimizer, model)",
        "with wb.flight(model, optimizer) as flight:\n    for x, y in loader(E):\n        learn(x, y)",
    ]
    names = {**globals(), "__name__": "cells", "E": E}
    for cell in cells:
        exec(compile(cell, "<cell>", "exec"), names)
    original, flight = SEEN.copy(), names["flight"]
    before = bits(flight, E)
    again = flight.repeat(-2)
    assert again.same and SEEN[-1] == original[-2]
    assert bits(flight, E) == before and names["turns"] == 6 and names["losses"] == [1, 2, 3, 4, 5, 6] and names["flight"] is flight


def test_an_exception_is_raised_again(E, tmp_path):
    path = str(tmp_path / "run.flight")

    def train():
        model, optimizer = begun(E)
        with wb.flight(model, optimizer, path=path):
            for i, (x, y) in enumerate(loader(E)):
                step(error(E, model, x[:, :3] if i == 4 else x, y), optimizer, model)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        train()
    file = wb.open(path)
    again = file.repeat(program=train)
    assert again.same and "shapes cannot be multiplied" in again.error
    again = file.repeat(-2, program=train)
    assert again.same and not again.error and SEEN[-1] == SEEN[3]


def test_nan_equals_nan(E, tmp_path):
    def train():
        model, optimizer = begun(E)
        with wb.flight(model, optimizer, path=tmp_path / "run.flight") as flight:
            for i, (x, y) in enumerate(loader(E)):
                step(error(E, model, x, y) * (math.nan if i == 3 else 1.0), optimizer, model)
        return flight

    flight = train()
    assert flight.repeat().same and math.isnan(flight.repeat().losses[0])
    file = wb.open(tmp_path / "run.flight")
    assert file.steps[-1].number == 3 and file.repeat(program=train).same


@pytest.mark.parametrize("given", [False, True])
def test_state_that_is_not_kept_makes_a_difference_that_is_told(E, given):
    class Curriculum:
        turns = 0

    model, optimizer = begun(E)
    curriculum, history = Curriculum(), [float(n) for n in range(100)]
    with wb.flight(model, optimizer, *([curriculum, history] if given else []), keep=2) as flight:
        for x, y in loader(E):
            curriculum.turns += 1
            history.append(history[-1] * 0.9)
            step(error(E, model, x, y) * curriculum.turns * history[-1], optimizer, model)
    again = flight.repeat()
    assert again.same is given and ("the loss is" in again.differs) is not given


def test_a_large_model_without_a_loss_is_not_said_to_be_the_same(E, monkeypatch):
    monkeypatch.setattr(recorder, "EVERY", 0)
    flight = KINDS["meta_learning"](E, "run.flight")
    assert not flight.repeat().same and "nothing is known" in flight.repeat().differs
    flight = KINDS["Adam"](E, "run.flight")
    assert flight.repeat().same and flight.repeat().compared == "losses"


def test_a_large_snapshot_is_in_a_file(E, monkeypatch):
    monkeypatch.setattr(log, "IN_MEMORY", 0)
    flight = KINDS["Adam"](E, "run.flight")
    assert flight.repeat().same and flight.repeat(-2).same


def test_a_copy_has_the_memory_order_of_its_original(E):
    for x in (E.zeros(3, 4).T, E.zeros(2, 3, 4).permute(2, 0, 1), E.zeros(3, 4)[:, ::2], E.zeros(3, 4), E.zeros(0, 3)):
        assert values.made(values.copied(x, None)).stride() == x.stride()
    assert values.made(values.copied(E.zeros(1, 4).expand(3, 4), None)).is_contiguous()
    assert values.made(values.copied(numpy.zeros((3, 4), order="F"), None)).flags.f_contiguous


def test_what_has_no_plain_form_is_named(E):
    class Batch:
        def __init__(self, x):
            self.x, self.made_by = x, lambda: x

    model, optimizer = begun(E)
    with wb.flight(model, optimizer) as flight:
        for batch in flight([Batch(x) for x, _ in loader(E)]):
            step(model(batch.x).square().mean(), optimizer, model)
    assert flight.left_out == {"batch": "Batch"}
    before = bits(flight, E)
    with pytest.raises(ValueError, match="it holds Batch, which has no plain form"):
        flight.repeat()
    assert bits(flight, E) == before


def test_an_object_is_kept_whole_or_not_at_all(E):
    class Rows(list):
        pass

    left_out = []
    for inner in ([E.ones(2)], [E.ones(2), lambda: 0], [object()]):
        copy = values.copied(Rows(inner), lambda path, x: left_out.append(path), "batch")
        if len(inner) == 1 and hasattr(inner[0], "shape"):
            assert type(values.made(copy)) is Rows and values.made(copy)[0].tolist() == [1.0, 1.0]
    assert left_out == ["batch", "batch"]


class Own:
    def __init__(self, x):
        self.x = x


def test_only_classes_that_the_program_makes_are_made_from_a_file(E, monkeypatch, tmp_path):
    """An object in a file becomes one of the class with its name that the loop's own items have, and of no other."""
    made = []

    def train(form):
        model, optimizer = begun(E)
        with wb.flight(model, optimizer, path=str(tmp_path / "run.flight")) as flight:
            for batch in flight([form(x) for x, _ in loader(E)]):
                made.append(type(batch).__name__)
                x = batch.x if isinstance(batch, Own) else batch
                step(model(x).square().mean(), optimizer, model)
        return flight

    file = wb.open(train(Own).save())
    monkeypatch.setattr(values, "_classes", {})  # as in another process
    assert file.repeat(program=lambda: train(Own)).same
    monkeypatch.setattr(values, "_classes", {})
    made.clear()
    with pytest.raises(ValueError, match=r"it holds a .*:Own, and the program has not made one here"):
        file.repeat(program=lambda: train(lambda x: x))
    assert made == []


def test_the_first_op_that_gives_another_result_is_named(E, tmp_path):
    now = SimpleNamespace(factor=1.0, layers=[])  # what a repetition cannot know

    def train():
        model, optimizer = begun(E)
        with wb.flight(model, optimizer, path=str(tmp_path / "run.flight")) as flight:
            for x, y in loader(E):
                h = model[0](x).tanh()
                h = h * now.factor
                for layer in now.layers:
                    h = layer(h)
                step(E.nn.functional.mse_loss(model[-1](h.t().contiguous().t()), y), optimizer, model)
        return flight

    flight = train()
    opened, line = wb.open(flight.save()), train.__code__.co_firstlineno + 5
    assert opened.repeat(program=train).same
    now.factor = 1.5
    for flown, program in ((flight, None), (opened, train)):
        again = flown.repeat(flown.steps[-1], program)
        at = flown.steps[0].number if flown is opened else next(one for one in reversed(flight.steps) if one.whole).number
        assert not again.same
        assert (
            again.notes[0]
            == f"In step {at}, the first op with a different result is mul at line {line} in train (off by 0.5 of its largest value)."
        )
        assert again.notes[0] in again.sentence
    now.factor = 1.0
    now.layers.append(lambda h: h.sin())
    assert re.search(r"sin at line \d+ in <lambda> runs where (t|permute) ran", opened.repeat(program=train).notes[0])


def test_ops_are_not_sampled_where_that_would_change_how_they_run(E):
    model, optimizer = begun(E)
    with wb.flight(model, optimizer) as plain:
        for x, y in loader(E):
            step(error(E, model, x, y), optimizer, model)
    assert plain.steps[0].prints
    watched = wb.record() if E.__name__ == "engine" else wb.watch(model)
    with watched, wb.flight(model, optimizer) as flight:
        for x, y in loader(E):
            step(error(E, model, x, y), optimizer, model)
    assert not any(one.prints for one in flight.steps)


def test_samples_of_numbers_that_are_not_finite_and_of_complex_ones_are_compared(E):
    def sampled(*results):
        found = prints.Prints(lines=True)
        for result in results:
            found.add("op", E.tensor(result))
        return found

    nan, inf = math.nan, math.inf
    assert sampled([nan, inf, 1.0]).differs(sampled([nan, inf, 1.0]).packed()) == ""
    assert sampled([nan, nan]).differs(sampled([1.0, 2.0]).packed()).endswith("in sampled")
    assert sampled([inf, 1.0]).differs(sampled([-inf, 2.0]).packed()).endswith("in sampled (off by 0.5 of its largest value)")
    assert sampled([1 + 2j]).differs(sampled([1 + 4j]).packed()).endswith("in sampled (off by 0.5 of its largest value)")


def test_compiled_functions_are_noticed():
    compiled = engine.compile(lambda x: x * 2)
    assert COMPILES()
    del compiled


def test_an_optimizer_that_was_not_given_is_named(E):
    made = dict(zip(("model", "optimizer"), begun(E), strict=True))
    with wb.flight(made["model"], keep=2) as flight:
        for x, y in loader(E):
            step(error(E, made["model"], x, y), made["optimizer"], made["model"])
    assert flight.left_out == {"an optimizer that was not given": "SGD"}
    assert not flight.repeat().same  # its momentum is lost


def test_loops_that_do_not_train_are_no_steps(E):
    model, optimizer = begun(E)
    with wb.flight(model, optimizer) as flight:
        for x, y in loader(E):
            with E.no_grad():
                error(E, model, x, y)
    assert flight.count == 0 and flight.steps == []
    with pytest.raises(LookupError, match="No step has been recorded"):
        flight.repeat()


def test_each_of_two_blocks_is_repeated(E, tmp_path):
    def train():
        model, optimizer = begun(E)
        with wb.flight(model, optimizer) as first:
            for x, y in loader(E):
                loss = error(E, model, x, y)
                step(loss, optimizer, model)
        loss = loss.detach()
        with wb.flight(model, optimizer, path=tmp_path / "second.flight") as second:
            total = [error(E, model, x, y).item() for x, y in loader(E)]
            assert sum(total) / len(total) > 0  # a loop over validation data gets its batches in a repetition
            for x, y in loader(E):
                loss = error(E, model, x, y) * 2
                step(loss, optimizer, model)
            loss = loss.detach()
            for x, y in loader(E):
                step(error(E, model, x, y) * 3, optimizer, model)
        return first, second

    first, second = train()
    original = SEEN.copy()
    assert first.repeat().same and SEEN[-1] == original[5]
    assert second.repeat().same and SEEN[-1] == original[-1]


def test_nothing_of_a_step_is_kept_alive(E):
    class Thing: ...

    def train():
        model, optimizer = begun(E)
        found, alive = [], []
        with wb.flight(model, optimizer) as flight:
            for x, y in loader(E):
                thing, out = Thing(), model(x)
                step(E.nn.functional.mse_loss(out, y), optimizer, model)
                found += map(weakref.ref, (thing, out, x, y))
                del x, y, thing, out
                alive += [one() for one in found]
        return flight, alive, weakref.ref(optimizer)

    gc.disable()
    try:
        flight, alive, optimizer = train()
    finally:
        gc.enable()
    assert set(alive) == {None} and flight._frames == []
    flight.repeat()
    del flight
    gc.collect()
    assert optimizer() is None
