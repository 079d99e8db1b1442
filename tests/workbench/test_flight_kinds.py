"""Trainings of many kinds: a repeated step equals the original bit for bit, in this process and from the file."""

from __future__ import annotations

import math
import random
from importlib import import_module

import numpy
import pytest
from flight_programs import KINDS, SEEN

import workbench as wb
from workbench.flights import recorder


@pytest.fixture(params=["engine", pytest.param("torch", marks=pytest.mark.torch)])
def E(request):
    return import_module(request.param)


@pytest.fixture(autouse=True)
def a_snapshot_whenever_there_is_room(monkeypatch):
    """However slow the machine is; steps in between are there, too."""
    monkeypatch.setattr(recorder, "SHARE", math.inf)
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
    file = wb.open(flight.save())
    for flown, program in ((flight, None), (file, lambda: train(E, path))):
        for step in (flown.steps[-1], flown.steps[1]):
            SEEN.clear()
            again = flown.repeat(step, program)
            assert again.same, again
            assert SEEN and all(a == b for a, b in zip(SEEN, original[step.number + 1 - len(SEEN) : step.number + 1], strict=True))
            assert "gradients" in again.compared and again.losses == step.losses
            assert bits(flight, E) == before
