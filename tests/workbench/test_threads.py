"""Several threads, sessions and copies at once: nothing is recorded wrongly, nothing stays behind."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import threading
from contextlib import ExitStack
from typing import Any

import numpy
import pytest
from walked import leaf

import engine
import workbench as wb
from engine import nn
from engine.base import observe
from workbench.recording.recorder import Recorder
from workbench.recording.recording import BYTES


def in_thread(work: Any) -> None:
    """Run it in a thread of its own, to its end; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_recordings_of_several_threads_may_end_in_any_order(order):
    watching = [Recorder() for _ in range(3)]
    stacks = [ExitStack() for _ in watching]
    for recorder, stack in zip(watching, stacks, strict=True):
        in_thread(lambda: stack.enter_context(observe.observing(recorder)))  # noqa: B023
    running = [0, 1, 2]
    for at in order:
        assert observe.current is watching[running[-1]]
        in_thread(stacks[at].close)
        running.remove(at)
    assert observe.current is None


def test_an_observer_that_is_put_aside_inside_a_block_stays_aside_after_another_block():
    outer, inner = Recorder(), Recorder()
    with observe.observing(outer):
        observe.current = None
        with observe.observing(inner):
            assert observe.current is inner
        assert observe.current is None


def model_of() -> nn.Module:
    engine.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def gradients(model: nn.Module) -> list[Any]:
    return [p.grad.numpy() for p in model.parameters() if p.grad is not None]


def test_a_backward_pass_in_another_thread_leaves_the_recording_whole():
    model, x = model_of(), leaf(8, 4)
    alone = model_of()
    alone(x).sum().backward()
    wanted = gradients(alone)
    with wb.record() as session:
        loss = model(x).sum()
        in_thread(loss.backward)
        before = session.recording.count
        model(x).sum()
    for mine, theirs in zip(gradients(model), wanted, strict=True):
        numpy.testing.assert_array_equal(mine, theirs)
    r = session.recording
    assert [r.op_name(row) for row in range(before) if r.ops[row]] == [r.op_name(row) for row in range(before, r.count)]
    assert set(r.scope[before:]) <= set(range(len(r.scopes))) | {-1}
    r.settle()
    assert r.now == sum(block[BYTES] for block in r.blocks.values())


def test_a_copy_of_a_model_made_while_it_is_recorded_is_a_model_of_its_own():
    model, x = model_of(), leaf(8, 4)
    with wb.record() as session:
        model(x).sum().backward()
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            before = session.recording.count
            for p in twin.parameters():
                p.grad = None
            twin(x).sum().backward()
            for mine, theirs in zip(gradients(twin), gradients(model), strict=True):
                numpy.testing.assert_array_equal(mine, theirs)
            r = session.recording
            assert [r.kind[row] for row in range(before, r.count)].count("parameter") == 4, "the copy's parameters are others"


@pytest.mark.slow
def test_recordings_and_passes_leave_nothing_behind():
    model, x = model_of(), leaf(8, 4)

    def everything() -> None:
        with wb.record() as session:
            loss = model(x).sum()
            in_thread(lambda: loss.backward(retain_graph=True))
            copy.deepcopy(model)(x).sum().backward()
        stepped = wb.step(loss)
        stepped.next()
        stepped.close()
        session.close()
        model.zero_grad()

    def counts() -> dict[str, int]:
        gc.collect()
        found: dict[str, int] = {}
        for thing in gc.get_objects():
            kind = type(thing)
            if str(kind.__module__).partition(".")[0] in ("engine", "workbench"):
                found[kind.__name__] = found.get(kind.__name__, 0) + 1
        return found

    for _ in range(3):
        everything()
    before = counts()
    for _ in range(5):
        everything()
    assert counts() == before
