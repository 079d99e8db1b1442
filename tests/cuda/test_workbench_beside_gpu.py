"""The workbench beside a program on a GPU: it disturbs no generator and no capture, waits once for all it shows, and finds the first NaN."""

from __future__ import annotations

import pytest
import syncs
from on_stand_in import installed

import engine
import workbench as wb
from engine import nn
from engine.core import devices
from engine.nn import functional as F
from workbench import plot
from workbench.backward.stepper import Stepper
from workbench.graph import faces
from workbench.graph.timing import Times, settle
from workbench.recording.recompute import unwatched
from workbench.training.state import TrainingState
from workbench.whatif import ground

pytestmark = pytest.mark.usefixtures("stand_in")


def waits():
    found = [one.what for one in syncs.found]
    syncs.found.clear()
    return found


def test_random_states_are_put_back():
    engine.rand(1, device="cuda")
    state = engine.cuda.get_rng_state().tolist()
    with unwatched():
        engine.rand(3, device="cuda")
    assert engine.cuda.get_rng_state().tolist() == state
    training = TrainingState(())
    drawn = engine.rand(3, device="cuda").tolist()
    training.restore()
    assert engine.rand(3, device="cuda").tolist() == drawn


def test_each_point_of_a_landscape_has_the_same_dropout():
    model, x = nn.Sequential(nn.Linear(3, 2), nn.Dropout()).to("cuda"), engine.ones(4, 3, device="cuda")
    land = plot.landscape(model, lambda: (model(x) ** 2).mean(), points=3)
    assert land.loss[1, 1] == land.here


def test_times_and_boxes_take_one_wait():
    x = engine.tensor([1.0, -2.0, 0.0], device="cuda")
    with wb.record() as record:
        for i in range(10):
            ((x * i) == 0, (x * i).sum())
    r = record.recording
    waits()
    assert len(r.marks) > 10
    settle(r)
    assert waits() == ["Event.synchronize"] and not r.marks
    found = faces.faces(r, list(range(r.count)))
    assert waits() == ["Event.synchronize"]
    assert next(face.health for face in found if r.kind[face.node] == "input") == [0, 0, 1, 1, 1]
    assert [face.value for face in found if r.op_name(face.node) == "sum"] == [-float(i) for i in range(10)]


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_the_first_nan_is_found_afterwards(where):
    x = engine.tensor([1.0, 0.0, 4.0], device="cuda", requires_grad=True)
    waits()
    with wb.record() as record:
        ((x - 1).log() if where == "forward" else (x * 0).sqrt() * 0).sum().backward()
    assert waits() == []
    told = str(wb.check(record))
    assert ("log made the first NaN" if where == "forward" else "sqrt") in told, told


def test_recording_a_training_waits_for_nothing():
    model = nn.Linear(3, 2).to("cuda")
    optimizer, x, y = engine.optim.AdamW(model.parameters()), engine.ones(4, 3, device="cuda"), engine.tensor([0, 1, 0, 1], device="cuda")
    waits()
    with wb.record() as record:
        for _ in range(4):
            optimizer.zero_grad(set_to_none=False)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert waits() == [] and len(record.recording.witness.ratios) == 3


def test_a_jacobian_of_complex_numbers():
    z = engine.tensor([1 + 2j, 3j], device="cuda", requires_grad=True)
    (found,) = wb.whatif.local_jacobian(z.square())
    assert found.values.tolist() == [2 + 4j, 6j]


def test_while_a_graph_is_captured_nothing_is_measured():
    w, x = engine.ones(3, 2, device="cuda", requires_grad=True), engine.ones(4, 3, device="cuda")
    model = nn.Linear(3, 2).to("cuda")
    history = wb.history(model)
    with wb.record() as record, engine.cuda.graph(engine.cuda.CUDAGraph()):
        for _ in range(2):
            (w * 2).sum().backward()
        model(x).sum().backward()
    assert record.recording.count and record.recording.witness.ratios == [] and not history["weight"].grad.present.any()


def test_times_of_two_gpus_and_of_steps_that_are_recorded():
    with installed(gpus=2):
        x, y = engine.ones(3, device="cuda:0", requires_grad=True), engine.ones(3, device="cuda:1")
        with wb.record() as record:
            total = (x * 2).tanh().sum()
            with engine.cuda.device(1):
                (y * 3).sum()
            total.backward(create_graph=True)
        times = Times(record.recording)
        assert set(record.recording.reached) == {0, 1} and (times.took >= 0).all()
        begun, ended = times.begun, times.begun + times.took
        covered = sum(
            max(0.0, end - max(begin, ended[:at].max(initial=0.0))) for at, (begin, end) in enumerate(zip(begun, ended, strict=True))
        )
        assert 0 < times.own.sum() == pytest.approx(covered, abs=1e-8)


def test_events_are_used_again():
    x = engine.ones(3, device="cuda")
    made = []

    def recorded():
        with wb.record() as record:
            for _ in range(10):
                x * 2
        settle(record.recording)
        made.append(sum(map(len, devices.gpu._spare_events.values())))

    for _ in range(4):
        recorded()
    assert made[0] > 0 and made[1:] == made[1:2] * 3


def test_a_what_if_before_the_first_step():
    x = engine.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    with wb.record() as record:
        loss = (x * x).sum()
    stepper = Stepper.of(record.recording, record.graph, loss)
    stepper.prepare()
    assert ground._seed(stepper, loss.node).device.id == 0
