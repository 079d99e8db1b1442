"""Numbers by node, for overlays: they are what NumPy says of the values and gradients that the program has."""

from __future__ import annotations

import math

import numpy as np
import pytest

import engine
from engine import nn
from engine.base import observe
from workbench.backward import metrics
from workbench.backward.stepper import Stepper
from workbench.inspector.statistics import mean_magnitude
from workbench.recording.recorder import Recorder
from workbench.recording.retrace import retrace
from workbench.session.session import Session


def net():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x = engine.randn(5, 4)
    recorder = Recorder()
    with observe.observing(recorder):
        hidden = model[1](model[0](x))
        loss = model[2](hidden).square().mean()
    recorder.stop()
    session = Session(recorder.recording)
    session.graph.finish({"hidden": hidden, "loss": loss, "x": x, "model": model})
    return session, model, hidden, loss, x


def test_activation_is_the_mean_magnitude_of_the_value():
    session, _, hidden, loss, x = net()
    values, _ = metrics.activation(session.recording)
    for tensor in (hidden, loss, x):
        row = session.recording.find(tensor)
        assert values[row] == pytest.approx(np.abs(tensor.detach().numpy().astype(np.float64)).mean(), rel=1e-6)


def test_gradients_follow_the_pass_and_end_as_those_of_backward():
    session, model, hidden, loss, _ = net()
    r = session.recording
    none, missing = metrics.gradient(r)
    assert np.isnan(none).all() and "backward()" in missing
    expected = {name: engine.autograd.grad(loss, p, retain_graph=True)[0].numpy() for name, p in model.named_parameters()}
    of_hidden = engine.autograd.grad(loss, hidden, retain_graph=True)[0].numpy()
    session.stepper = Stepper.of(r, session.graph, loss)
    session.stepper.finish()
    values, _ = metrics.gradient(r, session.stepper)
    for name, parameter in model.named_parameters():
        assert values[r.find(parameter)] == pytest.approx(np.abs(expected[name]).mean(), rel=1e-5)
    assert values[r.find(hidden)] == pytest.approx(np.abs(of_hidden).mean(), rel=1e-5)
    ratio, _ = metrics.ratio(r, session.stepper)
    share = np.abs(of_hidden).mean() / np.abs(hidden.detach().numpy()).mean()
    assert ratio[r.find(hidden)] == pytest.approx(share, rel=1e-5)


def test_bad_counts_what_is_not_finite():
    recorder = Recorder()
    with observe.observing(recorder):
        x = engine.tensor([1.0, 0.0, -1.0])
        y = x.log()
    r = recorder.stop()
    values, _ = metrics.bad(r)
    assert values[r.find(y)] == 2 and values[r.find(x)] == 0


def test_time_is_there_for_recorded_ops_and_said_to_be_missing_for_others():
    session, _, _, loss, _ = net()
    r = session.recording
    took, _ = metrics.time(r)
    assert all(took[row] > 0 for row in range(r.count) if r.kind[row] == "op")
    again, missing = metrics.time(retrace([loss.node], [loss]))
    assert np.isnan(again).all() and "%%watch" in missing


def test_a_view_asks_and_gets_one_number_for_each_node():
    session, _, _, loss, _ = net()
    (message, buffers), *more = session.handle({"type": "ask_metric", "v": 1, "id": 5, "metric": "activation"})
    assert not more and message["re"] == 5 and message["type"] == "metric"
    values = np.frombuffer(buffers[0], "<f4")
    assert len(values) == session.recording.count
    assert values[session.recording.find(loss)] == pytest.approx(abs(loss.item()), rel=1e-6)
    (problem, _), *_ = session.handle({"type": "ask_metric", "v": 1, "id": 6, "metric": "beauty"})
    assert problem["type"] == "problem" and "'beauty'" in problem["sentence"]


def test_magnitude_leaves_out_what_is_not_finite():
    assert mean_magnitude(np.array([1.0, -3.0, np.nan, np.inf])) == 2.0
    assert math.isnan(mean_magnitude(np.zeros(0)))
    assert mean_magnitude(np.array([-128, 127], np.int8)) == 127.5  # whose magnitude int8 has no number for
    assert mean_magnitude(np.array([-(2**63), 0])) == 2.0**62
