"""`wb.show(compiled)`: the program that XLA runs, as a graph."""

from __future__ import annotations

import pytest

import engine
import workbench as wb
from engine import nn, optim
from workbench import programs, protocol

pytest.importorskip("jax")


@pytest.fixture(scope="module")
def step():
    """A compiled step whose parts have been timed."""
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @engine.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = engine.randn(4, 6)
    for _ in range(3):
        step(x)
    step.explain(x)
    return step


def test_the_graph_has_phases_parts_and_instructions(step):
    session = wb.show(step)
    graph = session.graph.message()
    top = [group for group in graph.groups if group.parent == -1]
    assert [group.name for group in top] == ["forward", "backward", "SGD update"]
    parts = {group.name: group for group in graph.groups if group.parent >= 0}
    (program,) = step.explain().programs
    assert set(parts) == {part.name for part in program.parts}
    assert all(source < target for source, target in zip(graph.edges.source, graph.edges.target, strict=True))
    row = graph.nodes.op.index("tanh")
    assert graph.nodes.shape[row] == [4, 8] and graph.sites[graph.nodes.site[row]].text == "loss = model(x).square().mean()"
    assert "tanh" in parts[next(group.name for group in graph.groups if group.id == graph.nodes.group[row])].label


def test_inputs_and_results_have_the_users_names(step):
    nodes = wb.show(step).graph.message().nodes
    kinds = dict(zip(nodes.name, nodes.kind, strict=True))
    assert kinds["x"] == "input" and "result" in nodes.name
    rows = [row for row, name in enumerate(nodes.name) if name == "0.weight"]
    assert [nodes.kind[row] for row in rows] == ["parameter", "op"] and nodes.note[rows[1]] == "in place"


def test_it_answers_a_view_and_prints_itself(step):
    session = wb.show(step)
    row = session.graph.message().nodes.op.index("tanh")
    ask = {"type": "inspect", "v": protocol.VERSION, "id": 1, "node": row}
    ((told, _),) = session.handle(ask)
    facts = {fact["label"]: fact["text"] for fact in told["facts"]}
    assert facts["op"].startswith("tanh, test_compiled_programs.py") and "of the parts" in facts["time"] and "%%watch" in told["missing"]
    ((told, _),) = session.handle({"type": "ask_memory", "v": protocol.VERSION, "id": 2})
    assert told["type"] == "memory" and "of temporary arrays" in told["missing"]
    text = repr(session)
    assert text.startswith("The program that XLA runs for step(x: float32 4×6): ")
    assert text.index("  forward, ") < text.index("  backward, ") < text.index("  SGD update, ")
    assert "<svg" in session.stills()["image/svg+xml"]


def test_an_explanation_and_a_loop_are_shown_too(step):
    assert repr(wb.show(step.explain())) == repr(wb.show(step))
    table = programs.html(step.explain())
    assert "SGD update" in table and table.count("<tr>") > 5
    layer = nn.LSTM(3, 4)
    run = engine.compile(lambda x: layer(x)[0].detach())
    for _ in range(2):
        run(engine.ones(5, 2, 3))
    scopes = wb.show(run).recording.scopes
    assert any("lstm_steps" in scope.label and any(inner.parent == at for inner in scopes) for at, scope in enumerate(scopes))


def test_a_compiled_module_shows_its_program_and_the_one_of_its_backward_pass():
    model = engine.compile(nn.Linear(3, 2))
    with wb.watch(model):
        model(engine.ones(4, 3))
    assert repr(wb.show(model)).startswith("OptimizedModule: 1 op")  # nothing is compiled: the run under the watch
    for _ in range(2):
        model(engine.ones(4, 3)).sum().backward()
    assert repr(wb.show(model)).startswith("The program that XLA runs for Linear(input: float32 4×3): 2 parts, 1 fusion among them.")
    session = wb.show(model.explain().programs[1])
    assert repr(session).startswith("The backward pass that XLA runs for Linear(")
    ((told, _),) = session.handle({"type": "ask_timing", "v": protocol.VERSION, "id": 1, "begin": 0, "end": -1})
    assert told["missing"] == "A backward pass that runs outside of the function is not timed."


def test_what_has_not_been_compiled_is_not_shown():
    with pytest.raises(RuntimeError, match="Nothing has been compiled yet"):
        wb.show(engine.compile(lambda x: x + 1))
