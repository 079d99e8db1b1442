"""What a compiled step does besides computing: it is carried out in each call, or the step runs eagerly and the reason names the line."""

from __future__ import annotations

import collections
import itertools
import logging
from dataclasses import dataclass, field

import numpy
import pytest

import engine
from engine import nn, optim

pytest.importorskip("jax")

from engine.backends.xla import TraceError

calls = 0
history, table, counter, queue, keys, hits = [], {"calls": 0}, collections.Counter(), collections.deque(), set(), numpy.zeros(2)
numbers, more, draws, log = itertools.count(), (i for i in range(99)), numpy.random.default_rng(0), []
handler = logging.Handler()
handler.emit = log.append
logging.getLogger("steps").addHandler(handler)


@dataclass
class Holder:
    total = 0
    count: int = 0
    seen: list = field(default_factory=list)


@dataclass(slots=True)
class Slots:
    steps: int = 0


holder, slots, layer = Holder(), Slots(), nn.Identity()
layer.register_forward_hook(lambda module, given, out: history.append(out.shape))


def _global(x):
    global calls
    calls += 1


def _file(x, at=[None]):  # noqa: B006
    with open(at[0], "a") as file:
        file.write("a line\n")


def _default(x, found=[]):  # noqa: B006
    found.append(1)


EFFECTS = {  # what a step does, how often it was done, and what the reason says
    "global": (_global, lambda: calls, "changes the global variable 'calls' (LINE)"),
    "list": (lambda x: history.append(1), lambda: len(history), "changes the global variable 'history' (LINE)"),
    "hook": (lambda x: layer(x), lambda: len(history), "changes the global variable 'history' (LINE)"),
    "dict": (lambda x: table.update(calls=table["calls"] + 1), lambda: table["calls"], "changes the global variable 'table' (LINE)"),
    "counter": (lambda x: counter.update("a"), lambda: counter["a"], "changes the global variable 'counter' (LINE)"),
    "deque": (lambda x: queue.append(1), lambda: len(queue), "changes the global variable 'queue' (LINE)"),
    "set": (lambda x: keys.add(len(keys)), lambda: len(keys), "changes the global variable 'keys' (LINE)"),
    "array": (lambda x: numpy.add.at(hits, 0, 1), lambda: hits[0], "changes the global variable 'hits' (LINE)"),
    "default": (_default, lambda: len(_default.__defaults__[0]), "changes the default of 'found' (LINE)"),
    "attribute": (lambda x: setattr(holder, "count", holder.count + 1), lambda: holder.count, "changes 'count' of Holder (LINE)"),
    "slot": (lambda x: setattr(slots, "steps", slots.steps + 1), lambda: slots.steps, "changes 'steps' of Slots (LINE)"),
    "list of an object": (lambda x: holder.seen.append(1), lambda: len(holder.seen), "changes 'seen' of Holder (LINE)"),
    "class": (lambda x: setattr(Holder, "total", Holder.total + 1), lambda: Holder.total, "changes 'total' of the class Holder (LINE)"),
    "iterator": (lambda x: next(numbers), lambda: int(repr(numbers)[6:-1]), "uses the global variable 'numbers' (LINE): an iterator"),
    "generator": (lambda x: next(more), lambda: more.gi_frame.f_locals["i"] + 1, "uses the global variable 'more' (LINE): an iterator"),
    "draw": (lambda x: draws.random(), lambda: draws.bit_generator.state["state"]["state"], "changes the global variable 'draws' (LINE)"),
    "logging": (lambda x: logging.getLogger("steps").error("a step"), lambda: len(log), "logging would run only while"),
    "file": (_file, lambda: _file.__defaults__[0][0].read_text().count("\n"), r"open() would run only while the function is traced (LINE)"),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_an_effect_that_a_program_would_leave_out(name, tmp_path):
    effect, count, reason = EFFECTS[name]
    _file.__defaults__[0][0] = tmp_path / "log"
    (tmp_path / "log").touch()

    def step(x):
        effect(x)
        return x * 2

    compiled, x = engine.compile(step), engine.ones(2)
    if name == "draw":
        state = draws.bit_generator.state
        step(x), step(x), step(x)
        expected, draws.bit_generator.state = count(), state
    elif name == "generator":
        expected, _ = 1 + 3, next(more)
    else:
        expected = count() + 3
    with pytest.warns(UserWarning) as warned:
        for _ in range(3):
            assert compiled(x).equal(x * 2)
    assert count() == expected
    told = str(warned[0].message)
    for part in reason.split("LINE"):
        assert part in told
    assert "(test_compile_effects.py, line " in told and len(warned) == 1 and list(compiled.eager.values()) == [told.split(". ")[0]]
    whole = engine.compile(step, fullgraph=True)
    with pytest.raises(TraceError):
        whole(x), whole(x)


def test_an_argument_that_is_filled():
    def step(x, out):
        out["double"] = x * 2

    compiled, found = engine.compile(step), []
    with pytest.warns(UserWarning, match=r"changes the argument 'out' \(test_compile_effects.py, line \d+\)"):
        for i in range(3):
            compiled(engine.full((1,), float(i)), out := {})
            found.append(out["double"].item())
    assert found == [0, 2, 4]


class Mixture(nn.Module):
    """Stores a loss, which the step adds, its input, activations, and a dict of them, in every call."""

    def __init__(self):
        super().__init__()
        self.inner, self.aux, self.sizes, self.last = nn.Linear(3, 3), None, [], {}

    def forward(self, x):
        self.input, self.sizes = x, [len(x)]
        self.hidden = self.inner(x)
        self.aux = self.hidden.square().mean()
        self.last["both"] = (self.aux, self.hidden, "name")
        return self.hidden.relu()


def test_tensors_that_a_step_stores_are_stored_by_its_program():
    model, twin = Mixture(), Mixture()
    twin.load_state_dict(model.state_dict())
    optimizers = [optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]

    def step(model, optimizer):
        def run(x):
            optimizer.zero_grad()
            loss = model(x).sum() + model.aux
            loss.backward()
            optimizer.step()
            return loss.detach()

        return run

    eager, compiled = step(model, optimizers[0]), engine.compile(step(twin, optimizers[1]), fullgraph=True)
    for i in range(7):
        x = engine.randn(2, 3)
        assert engine.allclose(eager(x), compiled(x)) and twin.input is x
        assert engine.allclose(model.aux, twin.aux) and engine.allclose(model.hidden, twin.hidden)
        assert engine.allclose(twin.last["both"][1], twin.hidden) and twin.last["both"][2] == "name" and twin.sizes == [2]
        if i == 3:
            twin.aux = None  # which the step might ask for
    assert sum(map(len, compiled.plans.values())) == 1
    called, x = engine.compile(twin, fullgraph=True), engine.randn(2, 3)
    for _ in range(3):
        for m, f in ((model, model), (twin, called)):
            m.load_state_dict(model.state_dict())
            m.zero_grad()
            (f(x).sum() + 3 * m.aux).backward()
        assert all(engine.allclose(p.grad, q.grad) for p, q in zip(model.parameters(), twin.parameters(), strict=True))


class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.mask = engine.zeros(1), engine.ones(1)

    def forward(self, x):
        self.mean = 0.5 * self.mean + x
        return self.mean * 1


class Value(Average):
    def forward(self, x):
        before = self.mean.item()
        self.mean = x * 1
        return x + before


class Moved(Average):
    def forward(self, x):
        self.mask = self.mean
        self.mean = x * 1
        return x


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Average, r"reads 'mean' of Average \(test_compile_effects.py, line \d+\), and replaces it; write into it"),
        (Value, r"\.item\(\) needs the value of a tensor.*line \d+"),
        (Moved, r"changes 'mask' of Moved \(test_compile_effects.py, line \d+\)"),
    ],
)
def test_a_tensor_that_is_read_and_then_replaced(kind, reason):
    model, twin = kind(), kind()
    compiled = engine.compile(twin)
    with pytest.warns(UserWarning, match=reason):
        for i in range(4):
            x = engine.full((1,), float(i))
            assert model(x).equal(compiled(x)) and model.mean.equal(twin.mean) and model.mask.equal(twin.mask)


def test_a_tensor_in_an_attribute_is_guarded():
    model = nn.Identity()
    model.mask = engine.ones(1)
    compiled = engine.compile(lambda x: model(x) * model.mask, fullgraph=True)
    for value in (1.0, 2.0):
        model.mask = engine.full((1,), value)
        assert [compiled(engine.ones(1)).item() for _ in range(3)] == [value] * 3


def test_a_hook_in_a_compiled_module_runs_in_each_backward_pass():
    layer, seen, kept = nn.Linear(2, 2), [], nn.Identity()

    def call(x):
        hidden = layer(x)
        hidden.register_hook(seen.append)
        return hidden.sum()

    def keep(x):
        kept.hidden = layer(x)
        kept.hidden.retain_grad()
        return kept.hidden.sum()

    for function, reason in ((call, "a hook"), (keep, "changes 'hidden' of Identity")):
        compiled = engine.compile(lambda x, function=function: kept(function(x)))
        with pytest.warns(UserWarning, match=rf"{reason} \(test_compile_effects.py, line \d+\)"):
            for _ in range(3):
                compiled(engine.ones(1, 2)).backward()
    assert len(seen) == 3 and kept.hidden.grad.tolist() == [[1, 1]]


class Settings:
    """What the steps below read besides tensors; each change is seen by the next call."""

    kind = 1.0

    def __init__(self):
        self.scale, self.act, self.weight = 2.0, engine.relu, engine.ones(3)
        self.options, self.factors, self.known = {"k": {"deep": 1.0}}, [1.0, 2.0], set()


def plus(x):
    return x + 1


settings = Settings()
READS = {
    "an attribute": (lambda x: x * settings.scale, lambda: setattr(settings, "scale", 5.0)),
    "a function in an attribute": (lambda x: settings.act(x - 1), lambda: setattr(settings, "act", engine.sigmoid)),
    "a tensor in an attribute": (lambda x: x * settings.weight, lambda: setattr(settings, "weight", engine.ones(3) * 7)),
    "an item of a dict in a dict": (lambda x: x * settings.options["k"]["deep"], lambda: settings.options["k"].update(deep=9.0)),
    "a new item of a dict": (lambda x: x * (3 if "new" in settings.options else 1), lambda: settings.options.update(new=1)),
    "an item of a list": (lambda x: x * settings.factors[1], lambda: settings.factors.__setitem__(1, 9.0)),
    "the length of a list": (lambda x: x * len(settings.factors), lambda: settings.factors.append(1.0)),
    "a set": (lambda x: x * (1 + len(settings.known)), lambda: settings.known.add("a")),
    "an attribute of a class": (lambda x: x * Settings.kind, lambda: setattr(Settings, "kind", 3.0)),
    "a slot": (lambda x: x * slots.steps, lambda: setattr(slots, "steps", slots.steps + 1)),
    "a function that is defined anew": (lambda x: plus(x), lambda: globals().update(plus=lambda x: x + 10)),
}


@pytest.mark.parametrize("what", READS)
def test_a_change_of_what_a_step_reads_is_seen_by_the_next_call(what, monkeypatch):
    for name, value in (("settings", Settings()), ("plus", plus)):
        monkeypatch.setitem(globals(), name, value)
    monkeypatch.setattr(Settings, "kind", 1.0)
    step, change = READS[what]
    compiled, x = engine.compile(step, fullgraph=True), engine.arange(3.0)
    for _ in range(3):
        assert engine.equal(compiled(x), step(x))
    before = step(x)
    change()
    for _ in range(3):
        assert engine.allclose(compiled(x), step(x)) and not engine.allclose(compiled(x), before)
    (plans,) = compiled.plans.values()
    assert len(plans) == 2  # and none for each further call


def test_a_function_may_have_more_defaults_than_arguments(monkeypatch):
    def act(x, low=0.0):
        return x.clamp(low)

    act.__code__ = (lambda *args: args[0].clamp(0.0)).__code__  # as the engine's functions are, once a class has __torch_function__
    monkeypatch.setattr(settings, "act", act)
    compiled, x = engine.compile(lambda x: settings.act(x), fullgraph=True), engine.arange(-2.0, 2.0)
    for _ in range(3):
        assert engine.equal(compiled(x), x.clamp(0.0))
