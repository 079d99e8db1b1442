"""What a view asks about one tensor and gets: pictures, exact elements with the expression for them, images, tokens, memory."""

from __future__ import annotations

import re
from pathlib import Path

import numpy
import pytest
from asking import asked, recorded

import engine
import workbench as wb
from engine import nn
from workbench.session import surface
from workbench.tensors import ask


def row(session, name):
    return next(r for r, called in session.recording.names.items() if called == name)


@pytest.fixture
def vocabulary():
    wb.vocabulary(["the", "cat", "sat", "down"])
    yield
    wb.vocabulary(None)


def test_an_element_is_told_exactly_with_the_expression_for_it():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 3), nn.Linear(3, 2)])
            self.heads = nn.ModuleDict({"a b": nn.Linear(2, 2)})

        def forward(self, x):
            return self.heads["a b"](self.layers[1](self.layers[0](x)))

    def run():
        model, x = Net(), engine.tensor([[0.1, 0.2, 0.3, 0.4]])
        hidden = model(x)
        hidden.sum().backward()
        return {"model": model, "x": x, "hidden": hidden, "xs": [x + 1]}

    session = recorded(run)
    names = session.names
    element = lambda name, index, what="value": asked(session, type="ask_element", node=row(session, name), what=what, index=index)[0]  # noqa: E731
    for name, index, path in (("x", [0, 1], "x[0, 1]"), ("hidden", [0, 1], "hidden[0, 1]"),
                              ("layers.0.weight", [2, 3], "model.layers[0].weight[2, 3]"), ("heads.a b.bias", [1], "model.heads['a b'].bias[1]"),
                              ("xs[0]", [0, 0], "xs[0][0, 0]")):  # fmt: skip
        told = element(name, index)
        assert told["path"] == path
        assert told["text"] == str(eval(path, {}, names).array[()]), path  # the expression is the element
    told = element("layers.0.weight", [2, 3], "grad")
    assert told["path"] == "model.layers[0].weight.grad[2, 3]" and told["text"] == str(eval(told["path"], {}, names).array[()])
    assert element("x", [0, 0])["text"] == "0.1"  # in its own type
    assert "no element [5, 0]" in element("x", [5, 0])["sentence"]
    assert "has an axis" not in element("x", [0])["sentence"] and "no element [0]" in element("x", [0])["sentence"]


def test_gradients_of_intermediates_are_there_without_retain_grad():
    x = numpy.random.default_rng(0).normal(size=(4, 3))
    w = engine.tensor(x, requires_grad=True)
    h = engine.tanh(w)
    y = h * h
    stepper = wb.step(y.sum())
    stepper.finish()
    stepper.graph.finish({"h": h, "y": y, "w": w})
    session = surface.Session(stepper.recording, stepper.graph)
    session.stepper = stepper
    for name, wanted in (("y", numpy.ones_like(x)), ("h", 2 * numpy.tanh(x)), ("w", 2 * numpy.tanh(x) * (1 - numpy.tanh(x) ** 2))):
        told, buffers = asked(session, type="inspect", node=row(session, name), what="grad")
        assert told["missing"] == ""
        numpy.testing.assert_allclose(numpy.frombuffer(buffers[0], "<f4").reshape(4, 3), wanted, rtol=1e-5)


def test_axes_are_chosen_by_the_view():
    def run():
        x = engine.arange(24.0).reshape(2, 3, 4)
        y = x + 0
        return {"x": x, "y": y}

    session = recorded(run)
    x = session.names["y"].array
    told, buffers = asked(session, type="inspect", node=row(session, "y"), rows=2, cols=0, facet=-1, index=[0, 1, 0])
    numpy.testing.assert_array_equal(numpy.frombuffer(buffers[0], "<f4").reshape(4, 2), x[:, 1, :].T)
    assert told["heat"]["axes"] == [-1, 2, 0]
    assert "axes" in asked(session, type="inspect", node=row(session, "y"), rows=7)[0]["sentence"]


def test_an_image_takes_the_place_of_the_heat_map():
    session = ask.inspected(engine.rand(3, 8, 8), {})
    told, _ = asked(session, type="inspect", node=0)
    assert told["layouts"] == ["C, H, W", "N, H, W"] and told["image"] is None
    told, buffers = asked(session, type="inspect", node=0, image="C, H, W")
    assert told["heat"] is None and told["image"]["pixels"]["shape"] == [1, 8, 8, 3] and len(buffers[0]) == 192
    assert "cannot be seen" in asked(session, type="inspect", node=0, image="H, W")[0]["sentence"]


def test_ids_are_tokens_where_a_vocabulary_is_known(vocabulary):
    ids = engine.tensor([1, 2, 9])
    assert asked(ask.inspected(ids, {}), type="inspect", node=0)[0]["tokens"]["texts"] == [["cat", "sat", ""]]
    own = ask.inspected(ids, {}, {1: "chien"})
    assert asked(own, type="inspect", node=0)[0]["tokens"]["texts"] == [["chien", "", ""]]
    wb.vocabulary(None)
    assert asked(ask.inspected(ids, {}), type="inspect", node=0)[0]["tokens"] is None
    with pytest.raises(TypeError, match="vocabulary"):
        wb.vocabulary(5)


def test_a_view_keeps_the_vocabulary_it_was_made_with(vocabulary):
    ids = engine.tensor([1, 2])
    before = ask.inspected(ids, {})
    wb.vocabulary("xyz")
    assert asked(before, type="inspect", node=0)[0]["tokens"]["texts"] == [["cat", "sat"]]
    assert asked(ask.inspected(ids, {}), type="inspect", node=0)[0]["tokens"]["texts"] == [["y", "z"]]


def test_attention_weights_have_tokens_along_their_axes(vocabulary):
    def run():
        ids = engine.tensor([3, 1, 0])
        table = engine.randn(4, 8)
        h = nn.functional.embedding(ids, table)
        weights = (h @ h.T).softmax(-1)
        return {"ids": ids, "h": h, "weights": weights}

    session = recorded(run)
    told, _ = asked(session, type="inspect", node=row(session, "weights"))
    assert told["labels"] == ["down", "cat", "the"] and told["note"].startswith("Attention weights")
    plain, _ = asked(session, type="inspect", node=row(session, "h"))
    assert plain["labels"] == [] and plain["note"] == ""
    alone = ask.inspected(session.names["weights"], {}, ["x", "y", "z"])
    assert asked(alone, type="inspect", node=0)[0]["labels"] == ["x", "y", "z"]


def test_the_layout_in_memory_names_those_who_share_it():
    def run():
        base = engine.zeros(4, 6) + 1
        view = base[1:3]
        other = base.clone()
        return {"base": base, "view": view, "other": other}

    session = recorded(run)
    told, _ = asked(session, type="inspect", node=row(session, "view"))
    assert [(s["node"], s["name"]) for s in told["storage"]["sharers"]] == [(row(session, "base"), "base")]
    alone = ask.inspected(session.names["view"], session.names)
    told, _ = asked(alone, type="inspect", node=0)
    assert [(s["node"], s["name"]) for s in told["storage"]["sharers"]] == [(-1, "base")]


def test_the_text_for_terminals_has_tokens_and_memory_too(vocabulary):
    grid = engine.arange(24).reshape(4, 6)
    told = repr(ask.inspected(grid[0, 1:4], {"grid": grid}).report())
    assert "  tokens: cat sat down\n" in told and "3 elements of a memory of 24" in told
    assert "memory:" not in repr(ask.inspected(engine.ones(3), {}).report())


def test_the_example_of_the_page_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "inspector.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    names: dict = {"__name__": "example"}
    exec(compile(example, str(page), "exec"), names)
    assert "tokens: un chat noir" in capsys.readouterr().out
    names["recording"].graph.finish(names)
    rows = asked(names["recording"], type="ask_model")[0]["parameters"]
    assert {row["ratio_from"] for row in rows} == {"measured by wb.history at step 2"}
    told, _ = asked(names["recording"], type="ask_series", node=row(names["recording"], "0.weight"), what="value")
    assert [series["what"] for series in told["series"]] == ["value", "gradient", "update"]


def test_a_large_tensor_is_answered_in_little_room():
    x = engine.randn(2500, 4000)
    session = ask.inspected(x, {"x": x})
    told, buffers = asked(session, type="inspect", node=0)
    assert told["histogram"]["sampled"] and told["summary"]["size"] == 10_000_000
    assert sum(map(len, buffers)) <= 64 << 10
    exact, _ = asked(session, type="inspect", node=0, exact=True)
    assert not exact["histogram"]["sampled"] and sum(exact["histogram"]["counts"]) == 10_000_000
