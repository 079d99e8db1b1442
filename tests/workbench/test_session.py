"""The back end without Jupyter: requests, answers, refusals, several views, and a running cell."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest
from walked import PROGRAMS, added_to, bits, leaf, tanh_layer

import engine
import workbench as wb
from engine.base import observe
from workbench import protocol
from workbench.backward.stepper import Stepper
from workbench.protocol.pack import pack
from workbench.recording.recorder import Recorder
from workbench.recording.recording import Recording
from workbench.session.passes import PassWatcher
from workbench.session.session import Session

ROOT = Path(__file__).resolve().parents[2]


def opened(program=tanh_layer) -> tuple[list, Session, object]:
    leaves, run = program()
    recorder = Recorder("In [1]")
    with observe.observing(recorder):
        loss = run()
    session = Session(recorder.stop())
    session.finish({"loss": loss})
    session.stepper = Stepper.of(session.recording, session.graph, loss)
    return leaves, session, loss


def ask(session: Session, client=None, **data) -> list:
    answers = session.handle({"v": protocol.VERSION, "id": 1, **data}, client)
    for message, _ in answers:
        json.dumps(message, allow_nan=False)
    return [message for message, _ in answers]


def test_ready_brings_everything():
    _, session, _ = opened()
    session.stepper.to(2)
    graph, stepper, stepped = ask(session, type="ready")
    assert (graph["type"], stepper["type"], stepped["type"]) == ("graph", "stepper", "stepped")
    assert graph["start"] == 0 and stepper["plan"] == session.stepper.plan
    assert [s["index"] for s in stepped["steps"]] == [1, 2] and stepped["re"] is None


def test_a_level_is_told_to_every_view_that_is_open_and_to_each_that_opens_later(monkeypatch):
    monkeypatch.setattr("workbench.session.levels.current", None)
    with wb.record() as first:
        engine.ones(2) * 2
    told: list[dict] = []
    client = first.connect(lambda message, buffers: told.append(message))
    assert "level" not in [message["type"] for message, _ in first.handle({"type": "ready", "v": protocol.VERSION, "id": 1}, client)]
    wb.teach.level("student")
    assert told == [{"type": "level", "v": protocol.VERSION, "level": "student"}]
    with wb.record() as later:
        engine.ones(2) * 2
    answers = [message for message, _ in later.handle({"type": "ready", "v": protocol.VERSION, "id": 1})]
    assert [message["level"] for message in answers if message["type"] == "level"] == ["student"]
    with pytest.raises(ValueError, match="'student', 'full', not 'teacher'"):
        wb.teach.level("teacher")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_whole_pass_by_messages(program):
    leaves, run = program()
    run().backward()
    wanted = bits(leaves)
    for x in leaves:
        x.grad = None
    leaves, session, _ = opened(lambda: (leaves, run))
    index, told = 0, set()
    while True:
        (answer,) = ask(session, type="step", do="next")
        assert answer["type"] == "stepped" and answer["index"] > index and answer["re"] == 1
        told |= {s["index"] for s in answer["steps"]}
        index = answer["index"]
        if answer["done"]:
            break
    assert bits(leaves) == wanted
    assert max(told) == answer["total"]
    (answer,) = ask(session, type="step", do="first")
    assert answer["index"] == 0 and answer["steps"] == []
    assert all(x.grad is None for x in leaves)
    (answer,) = ask(session, type="step", do="node", to=session.stepper.plan[1])
    assert answer["index"] == 2
    (answer,) = ask(session, type="step", do="last")
    assert answer["done"] and bits(leaves) == wanted


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "not a message"),
        ("step", "not a message"),
        ({"type": "step"}, "version None"),
        ({"type": "step", "v": 99, "id": 3}, "version 99"),
        ({"type": "explode", "v": 1, "id": 3}, "does not know messages of type 'explode'"),
        ({"type": "step", "v": 1, "id": 3, "do": "fly"}, "do cannot be 'fly'"),
        ({"type": "step", "v": 1, "id": 3}, "without do"),
        ({"type": "inspect", "v": 1, "id": 3, "node": "x"}, "node cannot be 'x'"),
        ({"type": "inspect", "v": 1, "id": 3, "node": 999}, "no node 999"),
        ({"type": "inspect", "v": 1, "id": 3, "node": -1}, "no node -1"),
        ({"type": "step", "v": 1, "id": 3, "do": "node", "to": 0}, "does not reach"),
    ],
)
def test_what_cannot_be_answered_gets_a_sentence(data, words):
    x = leaf(2)
    recorder = Recorder()
    with observe.observing(recorder):
        plain = engine.ones(2) + 1
        loss = (x * plain).sum()
    session = Session(recorder.stop())
    session.stepper = Stepper.of(session.recording, session.graph, loss)
    ((problem, buffers),) = session.handle(data)
    assert problem["type"] == "problem" and words in problem["sentence"] and buffers == []
    assert problem["re"] == (3 if isinstance(data, dict) and "id" in data else None)


def test_stepping_without_a_pass_says_what_to_do():
    (problem,) = ask(Session(Recorder().stop()), type="step", do="next")
    assert "wb.step(loss)" in problem["sentence"]


def test_an_unforeseen_error_is_told_and_not_raised(monkeypatch):
    leaves, session, _ = opened()
    monkeypatch.setattr("workbench.tensors.answers.statistics", lambda *a: 1 / 0)
    (problem,) = ask(session, type="inspect", node=0)
    assert "ZeroDivisionError" in problem["sentence"] and problem["re"] == 1


def test_an_error_of_the_pass_is_told_with_the_step_it_stopped_at():
    x = leaf(2)
    y = x.exp()
    loss = (y * 2).sum()
    session = wb.show(loss)
    session.stepper = Stepper.of(session.recording, session.graph, loss)
    y.add_(1)
    problem, stepped = ask(session, type="step", do="last")
    assert "modified by an inplace operation" in problem["sentence"]
    assert (stepped["index"], stepped["failed"]) == (2, True)
    (back,) = ask(session, type="step", do="previous")
    assert (back["index"], back["failed"]) == (1, False)


def test_what_is_requested_along_with_a_step_is_answered_in_the_same_message():
    _, session, _ = opened()
    x = session.stepper.plan[0]
    look = {"type": "inspect", "v": protocol.VERSION, "id": 2, "node": x, "what": "grad"}
    both = [look, {"type": "ask_memory", "v": protocol.VERSION, "id": 3}]
    ((together, buffers),) = session.handle({"type": "step", "v": protocol.VERSION, "id": 1, "do": "next", "then": both})
    stepped, inspected, memory = together["messages"]
    assert [(one["type"], one["re"]) for one in together["messages"]] == [("stepped", 1), ("inspected", 2), ("memory", 3)]
    ((alone, own),) = session.handle(look)
    assert (inspected["summary"], buffers[: len(own)]) == (pack(alone, own)[0]["summary"], own)  # of the pass after the step
    assert len(buffers) == sum(together["buffers"]) and together["buffers"][0] == 0 and stepped["index"] == 1

    # Each has its own answer, also where the step or another one is refused.
    nowhere = {"type": "step", "v": protocol.VERSION, "id": 4, "do": "pass", "to": 9}
    ((together, _),) = session.handle({**nowhere, "then": [{"type": "?", "id": 5}, both[1]]})
    assert [(one["type"], one["re"]) for one in together["messages"]] == [("problem", 4), ("problem", 5), ("memory", 3)]
    (refused,) = ask(session, type="step", do="next", then=[{**look, "then": []}])
    assert refused["type"] == "problem"


def test_two_views_see_the_same_pass():
    _, session, _ = opened()
    heard = []
    other = session.connect(lambda message, buffers: heard.append(message))
    mine = session.connect(lambda message, buffers: None)
    ask(session, other, type="ready")
    ask(session, mine, type="ready")
    ask(session, mine, type="step", do="next")
    assert [(m["type"], m["re"], m["index"], [s["index"] for s in m["steps"]]) for m in heard] == [("stepped", None, 1, [1])]
    other.close()
    ask(session, mine, type="step", do="next")
    assert len(heard) == 1


def test_values_and_gradients_of_a_node():
    leaves, session, loss = opened()
    r = session.recording
    row = r.row_of(leaves[1].node)
    (value,) = ask(session, type="inspect", node=row)
    assert value["summary"]["norm"] == pytest.approx(float(numpy.linalg.norm(leaves[1].detach().numpy())), rel=1e-6)
    assert value["heat"]["rows"] == 4 and value["histogram"]["sampled"] is False
    (grad,) = ask(session, type="inspect", node=row, what="grad")
    assert grad["summary"] is None and "not been computed yet" in grad["missing"]
    ask(session, type="step", do="last")
    (grad,) = ask(session, type="inspect", node=row, what="grad")
    assert grad["summary"]["norm"] == pytest.approx(float(numpy.linalg.norm(leaves[1].grad.numpy())), rel=1e-6)
    (made,) = ask(session, type="inspect", node=r.row_of(loss.node))
    assert made["forward"]["symbols"][0] == "mrow"


def test_gradients_of_scalars_are_shown_like_all_others():
    w, b = engine.tensor([0.4, 0.9], requires_grad=True), engine.tensor(0.1, requires_grad=True)
    _, session, _ = opened(lambda: ((w, b), lambda: ((w * 1.5).sum() + b).tanh() ** 2))
    ask(session, type="step", do="last")
    r = session.recording
    for row in {r.row_of(w.node), r.row_of(b.node), *session.stepper.plan}:
        (grad,) = ask(session, type="inspect", node=row, what="grad")
        facts = {fact["label"]: fact["text"] for fact in grad["facts"]}
        assert facts["device"] == "cpu"
        assert facts["shape"] == ("(2,)" if row == r.row_of(w.node) or r.op_name(row) == "mul" else "()")


def test_a_value_that_is_gone_says_why():
    x = leaf(2000)
    recorder = Recorder(keep=100)
    with observe.observing(recorder):
        ((x * 2).tanh()).sum()
    session = Session(recorder.stop())
    row = next(i for i in range(session.recording.count) if session.recording.op_name(i) == "tanh")
    (answer,) = ask(session, type="inspect", node=row)
    assert answer["summary"] is None and "budget" in answer["missing"]


def test_memory_tells_who_holds_what_and_why():
    leaves, session, loss = opened()
    (answer,) = ask(session, type="ask_memory")
    assert answer["type"] == "memory" and answer["peak"] >= answer["live"] > 0
    why = {h["name"] or h["node"]: h["why"] for h in answer["holdings"]}
    assert any("saved by tanh" in text and "d_input" in text for text in why.values())
    assert sum(h["bytes"] for h in answer["holdings"]) == answer["live"]
    ((_, buffers),) = session.handle({"v": 1, "id": 1, "type": "ask_memory"})
    bands = numpy.frombuffer(buffers[1], "<f8").reshape(-1, 7)
    assert bands.sum(1).max() == answer["peak"]


def test_a_running_recording_is_sent_in_pieces_and_then_whole():
    recorder = Recorder()
    session = Session(recorder.recording)
    heard = []
    client = session.connect(lambda message, buffers: heard.append(message))
    client.receive({"v": 1, "id": 1, "type": "ready"})
    x = leaf(2)
    with observe.observing(recorder):
        for _ in range(3):
            x * 2
            session.update()
    recorder.stop()
    session.finish({"x": x})
    graphs = [m for m in heard if m["type"] == "graph"]
    assert [(g["start"], len(g["nodes"]["op"]), g["live"]) for g in graphs] == [
        (0, 0, True),
        (0, 3, True),
        (3, 2, True),
        (5, 2, True),
        (0, 7, False),
    ]
    client.receive({"v": 1, "id": 1, "type": "ready"})  # sent again, since the answer took long: it had waited for the end of the cell
    assert [m["type"] for m in heard].count("graph") == 5
    client.receive({"v": 1, "id": 7, "type": "ready"})  # another page
    assert [m["type"] for m in heard].count("graph") == 6


def test_of_the_groups_of_a_running_recording_the_new_ones_are_sent():
    recorder = Recorder()
    session = Session(recorder.recording)
    heard = []
    session.connect(lambda message, buffers: heard.append(message))
    x = leaf(2)
    with observe.observing(recorder):
        for turn in range(3):
            with wb.scope(f"outer {turn}"), wb.scope("inner"):
                x * 2
            session.update()
    recorder.stop()
    graphs = [m for m in heard if m["type"] == "graph"]
    told = [(g["first_group"], [(one["id"], one["parent"], one["name"]) for one in g["groups"]]) for g in graphs]
    assert told == [(2 * k, [(2 * k, -1, f"outer {k}"), (2 * k + 1, 2 * k, "inner")]) for k in range(3)]


def test_a_finished_graph_is_made_once_for_all_views_and_anew_when_names_come(monkeypatch):
    _, session, loss = opened()
    made = []
    message = session.graph.message
    monkeypatch.setattr(session.graph, "message", lambda *rows: made.append(rows) or message(*rows))
    clients = [session.connect(lambda message, buffers: None) for _ in range(3)]
    first, *others = [ask(session, client, type="ready")[0] for client in clients]
    assert len(made) == 1 and others == [first, first]
    session.finish({"renamed": loss})
    (graph, *_) = ask(session, clients[0], type="ready")
    assert len(made) == 2 and graph["nodes"]["name"][-1] == "renamed" != first["nodes"]["name"][-1]


def test_updates_of_a_running_cell_never_wait_for_another_thread():
    recorder = Recorder()
    session = Session(recorder.recording)
    held, go = threading.Event(), threading.Event()

    def hold():
        with session.lock:
            held.set()
            go.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    session.update()  # returns at once
    go.set()
    thread.join()


def test_an_answer_comes_before_what_another_thread_tells_after_it():
    """A cell that waits goes on as soon as a request was heard; what it tells then must not be overtaken by the answer from before."""
    session, told = Session(Recording()), []
    client = session.connect(lambda message, buffers: told.append(message))
    thread = threading.Thread(target=session.show_breakpoints)

    def heard():
        thread.start()
        thread.join(0.2)  # it has to wait until the answer is sent

    session.heard = heard
    client.receive({"type": "ask_value", "v": 1, "id": 7, "node": 0})
    thread.join()
    assert told[0].get("re") == 7 and len(told) > 1


def test_while_a_cell_runs_a_live_pass_is_not_stepped():
    _, session, _ = opened()
    session.busy = lambda: True
    (problem,) = ask(session, type="step", do="next")
    assert "running a cell" in problem["sentence"] and session.stepper.index == 0


def test_the_passes_of_watched_code_can_be_looked_at_afterwards():
    leaves, run = tanh_layer()
    recorder = Recorder()
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, None, lambda: {})
    with observe.observing(watcher):
        run().backward()
    watcher.close()
    recorder.stop()
    session.finish({})
    after = bits(leaves)
    (answer,) = ask(session, type="step", do="first")
    assert answer["index"] == 0 and bits(leaves) == after  # a record: nothing changes any more
    (answer,) = ask(session, type="step", do="last")
    assert answer["done"] and len(answer["steps"]) == answer["total"]


def test_a_pass_held_up_goes_where_it_is_wanted():
    """What the pause does, with the waiting done here: two steps, one back, then to the end."""
    leaves, run, wanted = added_to(tanh_layer)
    first = bits(leaves)
    session = Session(Recorder().recording)
    script = iter([("next", 1), ("next", 2), ("previous", 1), ("last", None)])
    seen = []

    def wait(stepper):
        while stepper.held:
            do, index = next(script)
            ask(session, type="step", do=do)
            seen.append((do, stepper.index))
            if do == "previous":
                assert bits(leaves) == first

    watcher = PassWatcher(session, None, wait, lambda: {})
    with observe.observing(watcher):
        run().backward()
    watcher.close()
    assert [do for do, _ in seen] == ["next", "next", "previous", "last"]
    assert bits(leaves) == wanted
    assert session.stepper.over and session.stepper.done


def test_outside_jupyter_a_step_block_simply_runs_and_nothing_of_jupyter_is_imported():
    code = """
import sys
import workbench as wb
assert "numpy" not in sys.modules and "engine" not in sys.modules
import engine
x = engine.tensor([1.0, 2.0]).requires_grad_()
with wb.step():
    (x * x).sum().backward()
assert x.grad.tolist() == [2.0, 4.0]
with wb.record("script") as r:
    loss = x.exp().sum()
print(r)
stepper = wb.step(loss)
stepper.finish()
print(wb.describe(x), wb.memory(), wb.show(loss))
bad = [m for m in sys.modules if m.split(".")[0] in ("IPython", "ipykernel", "ipywidgets", "anywidget", "comm", "traitlets", "zmq")]
assert bad == [], bad
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "script: 2 ops" in done.stdout and "exp" in done.stdout


def test_show_and_inspect_refuse_with_a_sentence():
    with pytest.raises(RuntimeError, match="does not require grad"):
        wb.show(engine.ones(2))
    with pytest.raises(TypeError, match="takes a Tensor"):
        wb.describe(3)


def test_inspection_prints_the_reason_for_a_missing_gradient():
    x = leaf(2)
    told = repr(wb.describe(x))
    assert told.startswith("x: float32 2") and "Backward has not run yet" in told
    (x * 2).sum().backward()
    assert "grad: float32 2, values 2, 2" in repr(wb.describe(x))
