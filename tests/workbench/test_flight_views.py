"""What a notebook shows of a flight recorder, of its file and of a repeated step."""

from __future__ import annotations

import ast
import re
from html import unescape
from xml.etree import ElementTree

import numpy
import pytest

import engine
import workbench as wb
from workbench import caller
from workbench.flights import card
from workbench.flights.log import Step

HOSTILE = "<script>alert(1)</script>&\"'"


def flown(tmp_path, bad=4, turns=6, name="run.flight", keep=3):
    """Train a model whose loss is NaN in step `bad`; what it gives, and the function."""

    def train():
        nonlocal flight
        engine.manual_seed(0)
        model = engine.nn.Linear(2, 1)
        optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
        with wb.flight(model, optimizer, path=tmp_path / name, keep=keep) as flight:
            for i in flight(range(turns)):
                loss = (model(engine.ones(4, 2)) - i).square().mean()
                if i == bad:
                    loss = (loss - loss.detach() - 1).log()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    flight = None
    train()
    return flight, train


def shown(thing) -> tuple[str, dict]:
    """The HTML and the metadata that a notebook gets; the HTML is well-formed."""
    bundle = thing._repr_mimebundle_()
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    assert data["text/plain"] == repr(thing)
    ElementTree.fromstring(data["text/html"])
    return data["text/html"], metadata


def words(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", html))


def code_in(html: str) -> str:
    return unescape(re.search(r"<code[^>]*>(.*)</code>", html)[1])


def drawn(losses, kept, at, left_out=None, headline="Why", code="") -> str:
    steps = [Step(i, 0, None, {}, {}, {}, losses=[losses[i]]) for i in kept]
    curve = numpy.array(list(enumerate(losses)), numpy.float64).reshape(-1, 2)
    found = card.html(headline, curve, steps, at, left_out or {}, code)
    ElementTree.fromstring(found)
    assert not re.search(r'[ ="(](nan|inf)\b', "".join(re.findall(r"<[^>]*>", found)))  # no such coordinates
    return found


def test_a_file_shows_why_it_was_written_the_steps_and_what_to_type(tmp_path):
    _, train = flown(tmp_path)
    opened = wb.open(tmp_path / "run.flight")
    html, metadata = shown(opened)
    assert "The loss is nan, in step 4 of test_flight_views.py" in words(html)
    assert "steps that can be repeated, 0 to 4" in words(html)
    assert re.findall(r"<th[^>]*>(\w+)</th>", html) == ["step", "loss"]
    assert words(html).split().count("nan") == 1  # in the table
    assert code_in(html) == f"wb.open({str(tmp_path / 'run.flight')!r}).repeat(program='test_flight_views.py')"
    assert metadata == {"gradient-workbench": {"next": "repeat(program='test_flight_views.py')"}}
    assert "log made the first NaN" in repr(opened.repeat(program=train))


def test_a_recorder_shows_how_to_repeat_the_step_or_to_open_the_file_when_the_step_has_gone(tmp_path):
    flight, _ = flown(tmp_path)
    assert flight.at == 4 and code_in(shown(flight)[0]) == "flight.repeat()"
    flight.at = 3
    assert code_in(shown(flight)[0]) == "flight.repeat(3)"
    flight.at = flight._log.steps.popleft().number
    assert code_in(shown(flight)[0]) == f"wb.open({flight.path!r}).repeat(program=...)"
    healthy, _ = flown(tmp_path, bad=-1)
    assert healthy.at is None and code_in(shown(healthy)[0]) == "flight.repeat()"
    model = engine.nn.Linear(2, 1)
    assert "code" not in shown(wb.flight(model, path=tmp_path / "none.flight"))[0]


def test_names_are_text(tmp_path):
    opened = wb.open(flown(tmp_path, name='it\'s "a" \\ & <b>.flight')[0].path)
    opened.fingerprint = {"file": f"{HOSTILE}.py", "function": HOSTILE}
    opened.why, opened.left_out = HOSTILE, {HOSTILE: HOSTILE}
    html, metadata = shown(opened)
    assert "<script" not in html and "<b>." not in html
    call = ast.parse(code_in(html), mode="eval").body
    assert ast.literal_eval(call.func.value.args[0]) == opened.path
    assert ast.literal_eval(call.keywords[0].value) == f"{HOSTILE}.py"
    for function, program in ((HOSTILE, "train"), ("fit", "fit"), ("fit.<locals>.inner", "train")):
        opened.fingerprint = {"file": "", "function": function}
        assert shown(opened)[1]["gradient-workbench"]["next"] == f"repeat(program={program})"


@pytest.mark.parametrize(
    "losses", [[1.0], [2.0, 2.0], [numpy.nan], [numpy.inf, 1.0, -3.0], [5.0, 1e-320, 1e30, numpy.nan], [0.0, 1e300, -1e300]]
)
def test_every_curve_is_drawn(losses):
    html = drawn(losses, range(len(losses)), len(losses) - 1)
    assert ("logarithmic" in html) == (1e30 in losses)
    assert html.count("<circle") == numpy.isfinite(losses).sum() + numpy.isfinite(losses[-1])


def test_a_long_curve_is_sampled_and_the_table_has_the_last_steps():
    html = drawn([1 / (i + 1) for i in range(5000)], range(4000, 5000), 4999)
    assert len(html) < 12_000 and html.count("<circle") == 1  # dots would touch
    assert words(html).split().count("4999") == 4  # axis, both legends, table
    assert html.count("<td") == 2 * card.SHOWN


def test_there_may_be_no_losses_and_nothing_to_repeat():
    assert "<svg" not in card.html("Flight recorder: 0 steps.", numpy.zeros((0, 2)), [], None, {}, "")
    assert "<table" not in drawn([1.0, 2.0], [], None)


def test_a_repeated_step_opens_on_what_the_checks_find(tmp_path, monkeypatch):
    _, train = flown(tmp_path)
    opened, views = wb.open(tmp_path / "run.flight"), []

    class View:
        def __init__(self, session, above):
            views.append((session.graph.view, above))

        def _repr_mimebundle_(self, **kwargs):
            return {"text/plain": "tree", "image/svg+xml": "<svg/>"}, {"own": 1}

    repeated, healthy = opened.repeat(program=train), opened.repeat(3, program=train)
    assert repr(healthy) == healthy.sentence and healthy._repr_mimebundle_() == {"text/plain": repr(healthy)}
    assert repr(repeated).splitlines()[:2] == [repeated.sentence, "step 4: 1 error"]
    monkeypatch.setattr(caller, "shown", View)
    assert repeated._repr_mimebundle_() == ({"text/plain": repr(repeated), "image/svg+xml": "<svg/>"}, {"own": 1})
    healthy._repr_mimebundle_()
    assert views == [("checks", repeated.sentence), ("graph", healthy.sentence)]
    assert repeated.session.stepper.sentence().endswith("is stored in bias.grad.")  # its model is still there


@pytest.mark.torch
def test_a_repeated_step_of_pytorch_opens_on_what_the_checks_find(tmp_path):
    torch = pytest.importorskip("torch")

    def train():
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with wb.flight(model, optimizer, path=tmp_path / "run.flight") as flight:
            for i in flight(range(3)):
                loss = model(torch.ones(4, 2)).square().mean()
                if i == 2:
                    loss = (loss - loss.detach() - 1).log()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    train()
    repeated = wb.open(tmp_path / "run.flight").repeat(program=train)
    assert "ERROR nan-forward: log made the first NaN" in repr(repeated)
    assert "loss = (loss - loss.detach() - 1).log()" in repr(repeated)
    assert repeated.session.graph.view == "checks"
