"""`wb.describe` and `wb.memory` as sessions: what a view of one tensor asks and gets, and what must not happen on the way."""

from __future__ import annotations

import gc
import weakref

import numpy
import pytest
from asking import asked

import engine
import workbench as wb
from engine import nn
from workbench.memory_use.ask import remembered
from workbench.session import surface
from workbench.tensors import ask


def test_a_view_of_one_tensor_shows_its_numbers():
    x = engine.tensor(numpy.arange(12.0).reshape(3, 4) - 3)
    session = ask.inspected(x, {"grades": x})
    graph, _ = asked(session, type="ready")
    assert (graph["view"], graph["root"], graph["nodes"]["name"]) == ("tensor", 0, ["grades"])
    told, buffers = asked(session, type="inspect", node=0)
    assert told["name"] == "grades" and told["summary"]["shape"] == [3, 4]
    assert (told["summary"]["negative"], told["summary"]["zero"], told["summary"]["positive"]) == (3, 1, 8)
    numpy.testing.assert_allclose(numpy.frombuffer(buffers[told["heat"]["values"]["index"]], numpy.float32), numpy.arange(12) - 3)


def test_numbers_are_those_of_now():
    x = engine.zeros(3)
    session = ask.inspected(x, {})
    x.fill_(2.0)
    assert asked(session, type="inspect", node=0)[0]["summary"]["values"] == [2.0, 2.0, 2.0]


def test_gradient_or_the_reason_why_there_is_none():
    w = engine.ones(2, requires_grad=True)
    session = ask.inspected(w, {})
    assert "Backward has not run yet" in asked(session, type="inspect", node=0, what="grad")[0]["missing"]
    (w * 3).sum().backward()
    assert asked(session, type="inspect", node=0, what="grad")[0]["summary"]["values"] == [3.0, 3.0]
    h = w * 2
    assert "retain_grad" in asked(ask.inspected(h, {}), type="inspect", node=0, what="grad")[0]["missing"]


def test_a_parameter_has_its_path_as_name():
    model = nn.Sequential(nn.Linear(2, 3))
    told, _ = asked(ask.inspected(model[0].weight, {"model": model}), type="inspect", node=0)
    assert told["name"].endswith("0.weight")


def test_an_inspected_tensor_is_no_recording_of_a_program():
    with wb.record():
        y = (engine.ones(2, requires_grad=True) * 2).sum()
    before = surface.latest()
    session = ask.inspected(engine.ones(3), {})
    assert surface.latest() is before and session.recording is not before
    assert y.item() == 4


def test_inspecting_keeps_no_variable_alive():
    gc.disable()
    try:
        x = engine.ones(1000)
        session = ask.inspected(x, {"x": x})
        alive = weakref.ref(x)
        del x
        assert alive() is None
        assert "no longer exists" in asked(session, type="inspect", node=0)[0]["missing"]
    finally:
        gc.enable()


@pytest.mark.slow
def test_what_an_expression_gave_stays_to_be_looked_at():
    session = ask.inspected(engine.ones(2, 3) * 2, {})
    gc.collect()
    assert asked(session, type="inspect", node=0)[0]["summary"]["values"] == [2.0] * 6
    assert "float32 2×3" in session.headline()


def test_stills_are_a_text_and_a_picture_in_which_names_are_text():
    x = engine.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    stills = ask.inspected(x, {"<script>alert(1)</script>": x}).stills()
    assert "float32" in stills["text/plain"]
    assert stills["image/svg+xml"].startswith("<svg") and "<script" not in stills["image/svg+xml"]


def test_memory_opens_on_its_tab():
    with wb.record():
        y = (engine.ones(2, requires_grad=True) * 2).sum()
    session = remembered(y, {"y": y})
    assert asked(session, type="ready")[0]["view"] == "memory"
    told, _ = asked(session, type="ask_memory")
    assert told["live"] > 0 and told["peak"] >= told["live"]


def test_inspect_wants_a_tensor():
    with pytest.raises(TypeError, match="wb.describe takes a Tensor, got list"):
        wb.describe([1, 2])  # type: ignore[arg-type]


def test_a_tensor_by_itself_is_called_what_it_is():
    """Over its numbers stands what made it, not "leaf" because it requires grad."""
    w = engine.ones(2, 2, requires_grad=True)
    for tensor, kind, op in (
        (w, "leaf", ""),
        (w.softmax(-1), "op", "softmax"),
        (w.detach(), "input", ""),
        (nn.Parameter(w.detach()), "parameter", ""),
    ):
        nodes = ask.inspected(tensor, {"x": tensor}).graph.message().nodes
        assert (nodes.kind, nodes.op) == ([kind], [op])


def test_a_module_that_nothing_recorded_shows_its_frozen_parameters_too() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    head, *lines = repr(wb.describe(model)).splitlines()
    assert "26 in 4 tensors" in head
    assert [(line.split()[0], "does not require grad" in line) for line in lines] == [
        ("0.weight", True),
        ("0.bias", True),
        ("2.weight", False),
        ("2.bias", False),
    ]
