"""Boxes of modules in a graph of the engine that nobody recorded, held against the calls that a recording of the same forward pass has."""

from __future__ import annotations

import pytest

import engine
import workbench as wb
from engine import nn
from engine.core import tape
from engine.nn import functional as F
from workbench.session import surface


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.mix(self.norm(x)).tanh()
        return F.relu(x + self.mlp(x))


class Language(nn.Module):
    def __init__(self, width=6, words=9):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def convolutions():
    layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU()), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(48, 2))


PROGRAMS = {
    "language": (Language, lambda: engine.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])),
    "convolutions": (convolutions, lambda: engine.randn(2, 1, 6, 6)),
    "blocks": (lambda: nn.Sequential(nn.Linear(3, 4), Block(4), Block(4), nn.Linear(4, 1)), lambda: engine.randn(5, 3)),
}


def modules_around(recording, row):
    """The modules around a row, outermost first."""
    found, scope = [], recording.scope[row]
    while scope >= 0:
        found.append(recording.scopes[scope])
        scope = recording.scopes[scope].parent
    return [scope.subject for scope in reversed(found) if scope.kind == "module"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_op_stands_in_the_boxes_of_modules_that_ran_it(name, monkeypatch):
    make, x = PROGRAMS[name]
    model, x = make(), x()
    with wb.record() as seen:
        loss = model(x).square().mean()
    r = seen.recording
    ran = {node.time: modules_around(r, r.times[node.time]) for node in tape.plan([loss.node]) if not isinstance(node, tape.Leaf)}
    monkeypatch.setattr(surface, "found", lambda tensor: None)
    monkeypatch.setattr("workbench.recording.retrace.recent", [])
    told = wb.step(loss).recording
    assert told.boxed and "inferred from the parameters" in told.left_out()
    owns = {id(module) for module in model.modules() if module._parameters}
    blocks = {id(module) for module in model.modules() if isinstance(module, Block)}
    for node in tape.plan([loss.node]):
        if isinstance(node, tape.Leaf) or node.op.picks:
            continue
        row = told.times[node.time]
        boxes, true = modules_around(told, row), ran[node.time]
        assert boxes == true[: len(boxes)], told.op_name(row)
        if true and true[-1] in owns and told.op_name(row) not in ("reshape", "transpose"):
            assert boxes == true, told.op_name(row)
        assert [one for one in boxes if one in blocks] == [one for one in true if one in blocks], told.op_name(row)


def test_a_recorded_program_keeps_its_own_boxes():
    model, x = Block(4), engine.randn(2, 4)
    with wb.record() as seen:
        loss = model(x).sum()
    assert wb.step(loss).recording is seen.recording and not seen.recording.boxed
