"""Graphs: golden structure, loops, folds, names, sites, pieces against the whole, and time."""

from __future__ import annotations

import json
import linecache
import re
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm
from walked import leaf

import engine
import workbench as wb
from engine import nn
from engine.base import observe
from engine.data import DataLoader, TensorDataset
from workbench.graph import graph as graphs
from workbench.graph import svg, text
from workbench.graph.graph import Graph
from workbench.recording.recorder import Recorder
from workbench.recording.retrace import retrace


def watched(fn, names=None) -> tuple[Graph, object]:
    recorder = Recorder("In [1]")
    with observe.observing(recorder):
        result = fn()
    recorder.stop()
    graph = Graph(recorder.recording)
    graph.finish(names or {})
    return graph, result


def outline(message) -> list:
    """The groups as a tree of texts."""
    below: dict[int, list] = {}
    for g in message.groups:
        below.setdefault(g.parent, []).append(g)

    def tell(parent: int) -> list:
        return [[f"{g.kind} {g.name} | {g.label}", *tell(g.id)] for g in below.get(parent, [])]

    return tell(-1)


def test_golden_graph_of_a_small_network():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    x = leaf(2, 4).detach()
    graph, _ = watched(lambda: model(x).sum(), {"model": model, "x": x})
    m = graph.message()
    assert list(zip(m.nodes.op, m.nodes.kind, m.nodes.name, strict=True)) == [
        ("", "input", "x"),
        ("", "parameter", "0.weight"),
        ("", "parameter", "0.bias"),
        ("linear", "op", ""),
        ("tanh", "op", ""),
        ("", "parameter", "2.weight"),
        ("", "parameter", "2.bias"),
        ("linear", "op", ""),
        ("sum", "op", ""),
    ]
    assert outline(m) == [["module model | Sequential", ["module 0 | Linear"], ["module 1 | Tanh"], ["module 2 | Linear"]]]
    assert [m.groups[g].name if g >= 0 else "" for g in m.nodes.group] == ["0", "0", "0", "0", "1", "2", "2", "2", ""]
    assert list(zip(m.edges.source, m.edges.target, m.edges.slot, strict=True)) == [
        (0, 3, 0), (1, 3, 1), (2, 3, 2), (3, 4, 0), (4, 7, 0), (5, 7, 1), (6, 7, 2), (7, 8, 0),
    ]  # fmt: skip
    json.dumps(m.to_json(), allow_nan=False)


def test_a_training_loop_becomes_iterations():
    w, x = leaf(3, 3), leaf(2, 3)

    def run():
        h = x
        for t in range(5):  # noqa: B007
            h = engine.tanh(h @ w)
            h = h * 0.5
        return h

    graph, _ = watched(run)
    (loop,) = outline(graph.message())
    assert loop[0] == "loop t | for t in range(5) ×5"
    assert [inner[0] for inner in loop[1:]] == [f"iteration {k} | turn {k}" for k in range(1, 6)]
    assert graph.message().groups[0].count == 5


def test_loops_in_loops():
    x = leaf(2)

    def run():
        h = x
        for _i in range(3):
            h = h.tanh()
            for _j in range(4):
                h = h + 1
        return h

    graph, _ = watched(run)
    (outer,) = outline(graph.message())
    assert outer[0].startswith("loop _i")
    assert [[inner[1][0] for inner in [iteration]] for iteration in outer[1:]] == [["loop _j | for _j in range(4) ×4"]] * 3


def test_the_same_line_twice_without_a_loop_is_no_loop():
    x = leaf(2)
    graph, _ = watched(lambda: x + x + x + x + x)
    assert outline(graph.message()) == []


def test_the_tape_alone_does_not_say_what_is_a_loop():
    w, x = leaf(3, 3), leaf(3)
    for _ in range(4):
        x = (x @ w).tanh()
    graph = Graph(retrace([x.node], [x]))
    graph.finish({})
    assert graph.message().groups == []


def test_repeated_calls_of_one_module_are_numbered():
    layer, x = nn.Linear(3, 3), leaf(2, 3)
    graph, _ = watched(lambda: layer(layer(x).tanh()), {"layer": layer})
    assert [g.name for g in graph.message().groups] == ["layer:1", "layer:2"]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x).tanh()


class Deep(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.slow
def test_alike_neighbours_are_folded_and_shared_weights_are_said():
    x = leaf(2, 3)
    graph, _ = watched(lambda: Deep([Block() for _ in range(6)])(x))
    ((deep, fold),) = outline(graph.message())
    assert deep.startswith("module Deep")
    assert fold[0] == "fold blocks.0 … blocks.5 | Block ×6"
    assert len(fold[1:]) == 6
    block = Block()
    graph, _ = watched(lambda: Deep([block] * 6)(x))
    ((_, fold),) = outline(graph.message())
    assert fold[0].endswith("Block ×6, same weights")


def test_only_alike_neighbours_are_folded():
    x = leaf(2, 3)
    wider = Block()
    wider.fc = nn.Linear(3, 3, bias=False)
    graph, _ = watched(lambda: Deep([Block(), Block(), wider, Block(), Block()])(x))
    assert [g.kind for g in graph.message().groups].count("fold") == 0


def test_composites_and_scopes_are_groups():
    x = leaf(2, 3)

    def run():
        with observe.scope("head"):
            return nn.functional.normalize(x)

    graph, _ = watched(run)
    assert outline(graph.message()) == [["scope head | head", ["function normalize | normalize", ["function norm | norm"]]]]


def test_shared_parameters_stand_in_the_lowest_common_group():
    layer, x = nn.Linear(3, 3), leaf(2, 3)
    graph, _ = watched(lambda: nn.Sequential(nn.Sequential(layer, layer), nn.Tanh())(x))
    m = graph.message()
    groups = {m.groups[m.nodes.group[i]].name for i, kind in enumerate(m.nodes.kind) if kind == "parameter"}
    assert groups == {"0"}


def test_names_come_from_variables_attributes_and_assignments():
    x = leaf(2, 3)
    held = {}

    def run():
        hidden = engine.tanh(x * 2)
        parts = hidden.sum(1)
        held["kept"] = parts
        return parts.sum()

    graph, loss = watched(run, {"x": x, "weights": [x], "loss": 3})
    m = graph.message()
    made = list(zip(m.nodes.op, m.nodes.name, strict=True))
    assert made == [("", "x"), ("", "2"), ("mul", ""), ("tanh", "hidden"), ("sum", "parts"), ("sum", "")]


def test_a_tensors_name_stays_data():
    hostile = "<script>alert(1)</script>"
    x = leaf(2, 3)
    graph, _ = watched(lambda: (x * x).sum(), {hostile: x})
    m = graph.message()
    assert m.nodes.name[0] == hostile
    picture = svg.picture(m)
    assert "<script" not in picture and "&lt;script&gt;" in picture
    assert hostile in text.tree(m)


def test_sites_are_lines_of_this_file():
    x = leaf(2)
    graph, _ = watched(lambda: x.exp())
    (site,) = graph.message().sites
    assert (site.file, site.cell, site.text) == ("test_graph.py", None, "graph, _ = watched(lambda: x.exp())")


def test_pieces_make_the_whole():
    recorder = Recorder()
    graph = Graph(recorder.recording)
    x, w = leaf(2, 3), leaf(3, 3)
    pieces = []
    with observe.observing(recorder):
        rows = edges = sites = 0
        for _ in range(6):
            (x @ w).tanh()
            piece = graph.message(rows, edges, sites)
            rows, edges, sites = rows + len(piece.nodes.op), edges + len(piece.edges.source), sites + len(piece.sites)
            pieces.append(piece)
    whole = graph.message()
    assert whole.live
    for column in whole.nodes.__dataclass_fields__:
        assert sum((getattr(p.nodes, column) for p in pieces), []) == getattr(whole.nodes, column)
    for column in whole.edges.__dataclass_fields__:
        assert sum((getattr(p.edges, column) for p in pieces), []) == getattr(whole.edges, column)
    assert sum((p.sites for p in pieces), []) == whole.sites


def test_the_tape_alone_gives_a_graph():
    x, w = leaf(2, 3).detach(), leaf(3, 3)
    loss = engine.tanh(x @ w).sum()
    graph = Graph(retrace([loss.node], [loss]))
    graph.finish({"loss": loss, "w": w, "x": x})
    m = graph.message()
    assert sorted(zip(m.nodes.op, m.nodes.name, strict=True)) == [("", "w"), ("", "x"), ("matmul", ""), ("sum", "loss"), ("tanh", "")]
    assert m.root == m.nodes.name.index("loss")
    numpy.testing.assert_array_equal(graph.recording.value(m.nodes.name.index("w")), w.detach().numpy())


@given(st.lists(st.integers(0, 2), max_size=40))
def test_repeats_are_real_and_do_not_overlap(tokens):
    end = 0
    for start, period, count in graphs.repeats(tokens):
        assert start >= end and period >= 1 and count >= 2
        end = start + period * count
        assert end <= len(tokens)
        piece = tokens[start : start + period]
        assert tokens[start:end] == piece * count


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5, unique=True), st.integers(2, 30))
def test_a_loop_is_found_whole(body, count):
    before, after = [90, 91], [92]
    assert graphs.repeats(before + body * count + after) == [(2, len(body), count)]


def test_a_long_unrolled_network_is_arranged():
    w, x = leaf(2, 2), leaf(1, 2)

    def run():
        h = x
        for _ in range(500):
            for _ in range(4):
                h = (h @ w).tanh()
                h = h * x
                h = h + x
        return h

    graph, _ = watched(run)
    recording = graph.recording
    assert recording.count >= 8000
    fresh = Graph(recording)
    fresh.finish({})
    json.dumps(fresh.message().to_json())
    assert len(svg.picture(fresh.message())) < 100_000


@pytest.mark.parametrize("kind", ["empty", "failed"])
def test_stills_of_odd_graphs(kind):
    def run():
        if kind == "failed":
            with pytest.raises(RuntimeError):
                leaf(2, 3) @ leaf(2, 3)

    graph, _ = watched(run)
    m = graph.message()
    assert svg.picture(m).startswith("<svg")
    assert ("failed: matmul" in text.tree(m)) == (kind == "failed")


def test_a_loop_stays_one_when_the_interpreter_warms_up():
    # CPython 3.11 makes the same call by another instruction after some rounds.
    xs, w = leaf(30, 4, 3).detach(), leaf(3, 3)

    def run():
        h = xs[0]
        for t in range(30):
            f, g = (xs[t] @ w + h).chunk(2, 0)
            h = engine.cat([f.sigmoid(), g.tanh()])
        return h

    graph, _ = watched(run)
    loops = [group for group in graph.message().groups if group.kind == "loop"]
    assert [(loop.label, loop.count) for loop in loops] == [("for t in range(30) ×30", 30)]


def test_what_a_composite_repeats_inside_is_no_loop_of_the_users():
    x = leaf(8, 3)

    def run():
        total = engine.zeros(())
        for _ in range(3):
            for part in x.chunk(4):
                total = total + part.sum()
        return total

    graph, _ = watched(run)
    (outer,) = outline(graph.message())
    assert outer[0] == "loop _ | for _ in range(3) ×3"
    assert [iteration[0] for iteration in outer[1:]] == [f"iteration {k} | turn {k}" for k in range(1, 4)]
    chunk, inner = outer[1][1:]
    assert chunk == ["function chunk | chunk", ["function split | split"]]  # four getitems, and no loop around them
    assert inner[0] == "loop part | for part in x.chunk(4) ×4"


def test_a_loop_of_loops_has_iterations_of_its_own():
    w = leaf(3, 3)

    def run():
        h = w
        for i in range(2):  # noqa: B007
            for j in range(3):  # noqa: B007
                h = (h @ w).tanh()
            h = h * 0.5
        return h

    graph, _ = watched(run)
    (outer,) = outline(graph.message())
    assert outer[0] == "loop i | for i in range(2) ×2"
    assert [iteration[0] for iteration in outer[1:]] == ["iteration 1 | turn 1", "iteration 2 | turn 2"]
    assert all(iteration[1][0] == "loop j | for j in range(3) ×3" for iteration in outer[1:])


def test_calls_of_a_function_are_not_called_by_a_loop_inside_it():
    ws = [[leaf(), leaf()] for _ in range(4)]

    def neuron(w, xs):
        act = w[0]
        for a, x in zip(w, xs, strict=True):
            act = act + a * x
        return act.relu()

    def run():
        xs = [leaf(), leaf()]
        return sum([neuron(w, xs) for w in ws], start=engine.zeros(()))

    graph, _ = watched(run)
    tops = [part[0] for part in outline(graph.message())]
    assert tops[0] == "loop neuron | neuron() ×4"
    calls = outline(graph.message())[0][1:]
    assert [call[0] for call in calls] == [f"iteration {k} | call {k}" for k in range(1, 5)]
    assert calls[0][1][0].startswith("loop (a, x) | for (a, x) in zip(w, xs")


def test_a_list_of_modules_is_no_group_and_a_module_called_twice_has_two():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Sequential(nn.Linear(3, 3), nn.ReLU())])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.blocks[0](x)

    model = Model()
    graph, _ = watched(lambda: model(leaf(2, 3)), {"model": model})
    names = [group.name for group in graph.message().groups if group.kind == "module"]
    assert "blocks" not in names  # it has no forward of its own
    assert [name for name in names if name.count(".") == 1] == ["blocks.0:1", "blocks.1", "blocks.0:2"]


def test_the_example_of_the_documentation_runs_and_is_grouped_as_it_says():
    page = (Path(__file__).parents[2] / "docs" / "graph.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    linecache.cache["<graph.md>"] = (len(code), None, code.splitlines(keepends=True), "<graph.md>")
    names: dict = {}
    exec(compile(code, "<graph.md>", "exec"), names)
    groups = names["session"].graph.message().groups
    loop = next(group for group in groups if group.kind == "loop")
    assert (loop.label, loop.count) == ("for t in range(12) ×12", 12)
    assert sum(group.kind == "scope" and group.name == "mix" for group in groups) == 12
    assert next((group.label, group.count) for group in groups if group.kind == "fold") == ("Sequential ×6", 6)


def test_a_call_that_led_to_several_ops_gives_its_name_to_the_last_and_only_where_it_is_a_tensors():
    """`losses` is a list of numbers: neither a softmax nor a loss may be called so."""
    bug = wb.teach.sabotage("double_softmax")

    def run():
        near = engine.nn.functional.cosine_similarity(engine.ones(2, 3), engine.ones(2, 3))
        return near.sum()

    with wb.record() as r:
        losses = bug.train()
        h = bug.model(bug.data[0][0])
        for step in (engine.tanh, engine.exp):
            h = step(h)
        run()
    assert losses
    named = [(name, r.recording.op_name(row)) for row, name in r.recording.names.items() if r.recording.ops[row] is not None]
    assert "losses" not in dict(named) and ("h", "exp") in named
    assert [name for name, _ in named].count("near") == 1


# -- epochs ------------------------------------------------------------------------------------------------------------------


def loaded(n: int, batch: int) -> DataLoader:
    return DataLoader(TensorDataset(engine.arange(n * 2.0).reshape(n, 2)), batch_size=batch)


def epoch(loader, w):
    for (x,) in loader:
        (x @ w).sum()


def epochs_in_one_function(w):
    loader = loaded(8, 3)
    for _ in range(4):
        for (x,) in loader:
            (x @ w).sum()


def epochs_by_calls(w):
    loader = loaded(8, 3)
    for _ in range(4):
        epoch(loader, w)


def epochs_of_one_batch(w):
    loader = loaded(8, 8)
    for _ in range(4):
        for _number, (x,) in enumerate(loader):
            (x @ w).sum()


def epochs_with_a_bar(w):
    loader = loaded(8, 3)
    for _ in range(4):
        for (x,) in tqdm(loader, disable=True):
            (x @ w).sum()
        w.abs()


def batches_that_begin_anew(w):
    loader = loaded(8, 3)
    for _ in range(4):
        for _turn in range(2):
            (x,) = next(iter(loader))
            (x @ w).sum()


def groups(run) -> list[tuple]:
    graph, _ = watched(lambda: run(leaf(2)))
    return [(g.label, g.count) for g in graph.message().groups if g.kind == "loop"]


def test_each_pass_over_a_loader_is_an_iteration_of_the_loop_around_it():
    inner = ("for (x,) in loader ×3", 3)
    assert groups(epochs_in_one_function) == [("for _ in range(4) ×4", 4), inner, inner, inner, inner]
    assert groups(epochs_by_calls) == [("epoch() ×4", 4), inner, inner, inner, inner]
    assert groups(epochs_of_one_batch) == [("for _ in range(4) ×4", 4)]
    assert groups(epochs_with_a_bar) == [
        ("for _ in range(4) ×4", 4), *[("for (x,) in tqdm(loader, disable=True) ×3", 3)] * 4,
    ]  # fmt: skip
    graph, _ = watched(lambda: epochs_in_one_function(leaf(2)))
    assert [g.label for g in graph.message().groups if g.kind == "iteration"][:9] == [
        "turn 1", "turn 1", "turn 2", "turn 3", "turn 2", "turn 1", "turn 2", "turn 3", "turn 3",
    ]  # fmt: skip
    assert groups(batches_that_begin_anew) == [("for _turn in range(2) ×8", 8)]  # no epochs: the loader is begun for each batch


def test_a_part_of_a_model_that_is_called_by_itself_has_its_path():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), nn.Linear(2, 1))
    graph, _ = watched(lambda: model[1](model[0](leaf(3, 2))), {"model": model})
    assert outline(graph.message()) == [
        ["module model.0 | Sequential", ["module 0 | Linear"], ["module 1 | Tanh"]], ["module model.1 | Linear"],
    ]  # fmt: skip
