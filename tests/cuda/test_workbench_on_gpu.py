"""The workbench's tools on a program on the GPU, on the stand-in for CuPy: they tell what they tell of the same program on the CPU."""

from __future__ import annotations

import re

import pytest

import engine
import workbench as wb
from workbench.backward.stepper import Stepper
from workbench.graph import svg, text


def program(device):
    engine.manual_seed(0)
    model = engine.nn.Sequential(engine.nn.Linear(4, 6), engine.nn.Tanh(), engine.nn.Linear(6, 3)).to(device)
    inputs = engine.linspace(-1, 1, 20).reshape(5, 4).to(device)
    with wb.record("In [1]") as shown:
        hidden = model[:2](inputs)
        loss = engine.nn.functional.cross_entropy(model[2](hidden), engine.tensor([0, 2, 1, 0, 2], device=device))
    return shown, model, loss, {"model": model, "inputs": inputs, "hidden": hidden, "loss": loss}


def rounded(found):
    """Text with numbers of three digits: sums are in another order on a GPU."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda m: f"{float(m[0]):.2g}", found)


def test_the_graph_names_the_device_of_each_result(stand_in):
    with wb.record() as shown:
        engine.ones(5, 4).cuda().tanh().sum()
    graph = shown.graph.message()
    assert graph.nodes.op == ["", "to_device", "tanh", "sum"] and graph.nodes.device == ["", "cuda:0", "cuda:0", "cuda:0"]
    told = text.tree(graph)
    assert re.search(r"#0 input.*: float32 5×4$", told, re.MULTILINE) and "#2 tanh: float32 5×4 cuda:0, from #1" in told
    assert svg.picture(graph).count("cuda:0") == 3
    assert set(program("cpu")[0].graph.message().nodes.device) == {""}


def test_backward_is_stepped_through_as_on_the_cpu(stand_in):
    told = {}
    for device in ("cpu", "cuda"):
        shown, model, loss, names = program(device)
        shown.graph.finish(names)
        stepper = Stepper.of(shown.recording, shown.graph, loss)
        stepper.prepare()
        told[device] = []
        for _ in range(stepper.total):
            stepper.next()
            told[device].append(rounded(stepper.sentence()))
        stepper.previous()
        stepper.finish()
        told[device].append([p.grad.cpu() for p in model.parameters()])
    engine.testing.assert_close(told["cuda"].pop(), told["cpu"].pop())
    assert told["cuda"] == told["cpu"] and len(told["cpu"]) == 8


@pytest.mark.parametrize("request_", [
    {"type": "inspect"}, {"type": "inspect", "what": "grad"}, {"type": "ask_local"}, {"type": "ask_fan_out"}, {"type": "check_rule"},
    {"type": "ask_element", "what": "value", "index": [1, 2]},
], ids=lambda r: " ".join(map(str, r.values())))  # fmt: skip
def test_each_node_answers_as_on_the_cpu(stand_in, request_):
    told = {}
    for device in ("cpu", "cuda"):
        shown, _, loss, names = program(device)
        shown.graph.finish(names)
        loss.backward()
        answers = [shown.handle({"v": 1, "id": 1, **request_, "node": row}) for row in range(shown.recording.count)]
        told[device] = [[(one["type"], len(buffers)) for one, buffers in answer] for answer in answers]
        assert not [one for answer in answers for one, _ in answer if "could not answer" in one.get("sentence", "")]
    assert told["cuda"] == told["cpu"]


def test_checks_memory_and_times(stand_in):
    shown, model, loss, _ = program("cuda")
    loss.backward()
    assert not [f for f in wb.check(shown).findings if f.severity == "error"]
    assert "cuda:0" in str(wb.memory(shown)) or "GPU" in str(wb.memory(shown))
    assert "tanh" in str(wb.profile(shown))
    assert "cuda" in repr(model[0].weight) and "cuda:0" in str(wb.describe(model[0].weight))
