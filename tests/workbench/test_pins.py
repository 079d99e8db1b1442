"""Pins: copies that outlive what they were taken of, and their differences against NumPy in float64."""

from __future__ import annotations

import math

import numpy
import pytest
from asking import asked

import engine
import workbench as wb
from workbench.protocol import Refused
from workbench.session import surface
from workbench.tensors import pins
from workbench.tensors.pins import BOARD, difference, words


@pytest.fixture(autouse=True)
def empty_board():
    BOARD.clear()
    yield
    BOARD.clear()


def row(recording, name):
    return next(r for r, called in recording.names.items() if called == name)


def test_a_difference_is_that_of_numpy():
    generator = numpy.random.default_rng(0)
    a = generator.normal(size=(3, 4)).astype(numpy.float32)
    b = a.copy()
    b[1, 2] += 0.5
    b[2, 0] -= 0.25
    told, buffers = difference(a, b)
    x, y = a.astype(numpy.float64), b.astype(numpy.float64)
    assert (told.changed, told.first, told.equal) == (2, [1, 2], False)
    assert told.pair == [str(b[1, 2]), str(a[1, 2])]
    assert told.max_abs == pytest.approx(numpy.abs(x - y).max(), rel=1e-12)
    assert told.mean_abs == pytest.approx(numpy.abs(x - y).mean(), rel=1e-12)
    assert told.relative == pytest.approx(numpy.linalg.norm(x - y) / numpy.linalg.norm(y), rel=1e-12)
    assert told.cosine == pytest.approx((x * y).sum() / numpy.linalg.norm(x) / numpy.linalg.norm(y), rel=1e-12)
    numpy.testing.assert_allclose(numpy.frombuffer(buffers[0], "<f4").reshape(3, 4), x - y, rtol=1e-6)
    assert "2 of 12 elements differ, first at [1, 2]" in told.words


def test_complex_numbers_of_the_same_magnitude_differ():
    a, b = numpy.array([1, 2j]), numpy.array([1j, 2j])
    told, _ = difference(a, b)
    assert (told.equal, told.changed, told.first, told.pair) == (False, 1, [0], ["1j", "(1+0j)"])
    assert told.max_abs == pytest.approx(abs(1 - 1j)) and told.relative == pytest.approx(abs(1 - 1j) / numpy.sqrt(5))
    assert told.cosine == pytest.approx(numpy.vdot(b, a).real / 5)
    assert difference(a, a.copy())[0].equal


def test_whole_numbers_differ_where_double_precision_does_not_tell_them_apart():
    told, _ = difference(numpy.array([2**53, 7]), numpy.array([2**53 + 1, 7]))
    assert (told.changed, told.first, told.max_abs) == (1, [0], 1.0)


def test_two_scalars_differ_by_their_difference():
    told, buffers = difference(numpy.array(3.0), numpy.array(2.0))
    assert (told.changed, told.first, told.pair) == (1, [], ["2.0", "3.0"]) and not buffers
    assert (told.max_abs, told.relative, told.cosine) == (1.0, 0.5, 1.0)
    assert difference(numpy.array(math.inf), numpy.array(math.inf))[0].equal


def test_equal_is_equal_in_every_element_nan_and_inf_too():
    a = numpy.array([1.0, math.nan, math.inf, -math.inf, 0.0])
    told, buffers = difference(a, a.copy())
    assert told.equal and told.changed == 0 and told.heat is None and not buffers and told.words == "Equal in every element."
    assert difference(a.astype(numpy.float32), a)[0].equal  # the dtype is another one, the numbers are not
    b = a.copy()
    b[2] = math.nan
    told, _ = difference(b, a)
    assert (told.changed, told.first, told.pair) == (1, [2], ["inf", "nan"]) and told.max_abs is None
    assert "1 of 5 elements differs" in words(told, 5)


def test_what_was_pinned_stays_as_it_was():
    with wb.record("In [1]") as session:
        x = engine.arange(6.0).reshape(2, 3)
        h = x * 2
    session.graph.finish({"x": x, "h": h})
    at = row(session.recording, "h")
    told, _ = asked(session, type="ask_compare", do="pin", node=at)
    assert [(p["name"], p["source"], p["node"], p["difference"]) for p in told["pins"]] == [("h", "In [1]", at, None)]
    h.mul_(10.0)
    told, buffers = asked(session, type="ask_compare", do="pin", node=at)
    first, second = told["pins"]
    assert first["summary"]["values"] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0] and second["summary"]["max"] == 100.0
    assert second["difference"]["changed"] == 5 and second["difference"]["max_abs"] == 90.0 and told["base"] == first["pin"]
    numpy.testing.assert_array_equal(
        numpy.frombuffer(buffers[second["difference"]["heat"]["values"]["index"]], "<f4"), 9.0 * numpy.arange(6) * 2
    )
    ends = {(p["histogram"]["low"], p["histogram"]["high"]) for p in told["pins"]}
    assert ends == {(0.0, 100.0)}  # one axis for all


def test_pins_can_be_taken_back_and_compared_with_another():
    with wb.record() as session:
        x = engine.ones(8)
        y, z = x + 1, x.reshape(2, 4) + 2
    session.graph.finish({"x": x, "y": y, "z": z})
    for name in "xyz":
        told, _ = asked(session, type="ask_compare", do="pin", node=row(session.recording, name))
    x_pin, y_pin, z_pin = (p["pin"] for p in told["pins"])
    assert "is not x's, 8, so there is no difference" in told["pins"][2]["apart"] and told["pins"][2]["difference"] is None
    told, _ = asked(session, type="ask_compare", do="base", pin=y_pin)
    assert told["pins"][0]["difference"]["max_abs"] == 1.0 and told["pins"][1]["difference"] is None
    told, _ = asked(session, type="ask_compare", do="unpin", pin=y_pin)
    assert ([p["pin"] for p in told["pins"]], told["base"]) == ([x_pin, z_pin], x_pin)
    assert asked(session, type="ask_compare", do="base", pin=y_pin)[0]["type"] == "problem"
    assert asked(session, type="ask_compare", do="clear")[0]["pins"] == []


def test_a_gradient_is_pinned_at_its_step():
    w = engine.ones(3, requires_grad=True)
    loss = (w * w).sum()
    session = surface.opened(loss, {"w": w, "loss": loss})
    session.stepper = stepper = wb.step(loss)
    session.recording, session.graph = stepper.recording, stepper.graph
    at = stepper.recording.row_of(w.node)
    assert "nothing to pin" in asked(session, type="ask_compare", do="pin", node=at, what="grad")[0]["sentence"]
    stepper.finish()
    told, _ = asked(session, type="ask_compare", do="pin", node=at, what="grad")
    assert told["pins"][0]["summary"]["values"] == [2.0, 2.0, 2.0]
    assert told["pins"][0]["source"].endswith(f"gradient, step {stepper.total} of {stepper.total}")


def test_the_run_before_is_matched_by_name():
    def run(scale):
        with wb.record("In [4]") as session:
            x = engine.arange(4.0)
            h = x * scale
        session.graph.finish({"x": x, "rerun": h})
        return session

    first, second = run(2.0), run(3.0)
    at = row(second.recording, "rerun")
    assert asked(second, type="inspect", node=at)[0]["earlier"] == "In [4]"
    asked(second, type="ask_compare", do="pin earlier", node=at)
    told, _ = asked(second, type="ask_compare", do="pin", node=at)
    before, now = told["pins"]
    assert (before["node"], now["node"], before["twin"]) == (-1, at, at)
    assert now["difference"]["max_abs"] == 3.0 and before["summary"]["values"] == [0.0, 2.0, 4.0, 6.0]
    assert asked(first, type="inspect", node=row(first.recording, "rerun"))[0]["earlier"] == ""


def test_too_many_and_too_large_are_refused_in_words(monkeypatch):
    with wb.record() as session:
        x = engine.ones(4)
        y = x + 1
    session.graph.finish({"x": x, "y": y})
    at = row(session.recording, "y")
    monkeypatch.setattr(pins, "LARGEST", 8)
    assert "A pin keeps a copy, and this tensor has 16 B" in asked(session, type="ask_compare", do="pin", node=at)[0]["sentence"]
    monkeypatch.undo()
    for _ in range(pins.MOST):
        asked(session, type="ask_compare", do="pin", node=at)
    assert "as many as can be compared" in asked(session, type="ask_compare", do="pin", node=at)[0]["sentence"]
    with pytest.raises(Refused):
        BOARD.compare_with(-5)


def test_a_number_can_be_pinned_too():
    with wb.record() as session:
        x = engine.ones(3)
        y = x * 2.5
    session.graph.finish({"x": x, "y": y})
    told, _ = asked(session, type="ask_compare", do="pin", node=row(session.recording, "2.5"))
    assert told["pins"][0]["summary"]["values"] == [2.5] and told["pins"][0]["name"] == "2.5"


def test_a_view_that_opens_hears_of_pins():
    with wb.record() as session:
        y = engine.ones(4) + 1
    session.graph.finish({"y": y})
    assert [m["type"] for m, _ in session.handle({"type": "ready", "v": 1, "id": 1})] == ["graph"]
    asked(session, type="ask_compare", do="pin", node=row(session.recording, "y"))
    assert [m["type"] for m, _ in session.handle({"type": "ready", "v": 1, "id": 1})] == ["graph", "compared"]
