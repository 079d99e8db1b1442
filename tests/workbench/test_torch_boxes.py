"""Boxes of modules that are told from parameters alone, held against the calls that a watch over the same forward pass has recorded."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from test_boxes import modules_around
from torch import nn

import workbench as wb
from workbench.torch_models import stepping

pytestmark = pytest.mark.torch


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return F.relu(x + F.dropout(self.mlp(self.norm(x))))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.queries, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.queries(x).chunk(3, -1)
        return F.dropout(self.out(F.softmax(q @ k.transpose(-1, -2), -1) @ v), 0.2)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attention, self.feed = nn.LayerNorm(width), Attention(width), Residual(width)

    def forward(self, x):
        return self.feed(x + self.attention(self.norm(x)))


class Language(nn.Module):
    """Token and position embeddings, blocks, and a head that shares its weight with the tokens'."""

    def __init__(self, blocks=3, width=8, words=11):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(5, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.tokens(x) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Unrolled(nn.Module):
    """A cell that is called for each step, and a decoder."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.RNNCell(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], 4)
        for step in x:
            h = self.cell(step, h)
        return self.out(h)


class Twins(nn.Module):
    """One encoder, called for both of its inputs."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head((self.encoder(x[0]) - self.encoder(x[1])).abs())


class Coded(nn.Module):
    """Two stacks that end with an activation."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.mean, self.decoder = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 4), nn.LeakyReLU(), nn.Linear(4, 3), nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.mean(self.encoder(x)) * 2) + 1


MOVES = ("view", "unsafe_view", "expand")


def _net(width):
    return nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(4 * width, 2))


PROGRAMS = {
    "residual": (lambda: nn.Sequential(nn.Linear(3, 4), *(Residual(4) for _ in range(3)), nn.Linear(4, 1)), torch.randn(2, 3)),
    "language": (Language, torch.tensor([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])),
    "unrolled": (Unrolled, torch.randn(4, 2, 3)),
    "twins": (Twins, torch.randn(2, 5, 3)),
    "encoder": (lambda: nn.ModuleDict({"m": Coded()})["m"], torch.randn(2, 3)),
    "convolutions": (lambda: _net(3), torch.randn(2, 1, 4, 4)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 3, 8)),
    "lstm": (lambda: nn.ModuleDict({"rnn": nn.LSTM(3, 4)})["rnn"], torch.randn(5, 2, 3)),
}


def _both(model, x, loss_of=lambda model, out: (out[0] if isinstance(out, tuple) else out).square().mean()):
    """For each op behind the loss: the modules told from parameters, and those that ran it."""
    with wb.watch() as w:
        loss = loss_of(model, model(x))
    seen, told = w.session.recording, wb.watch(loss).session.recording
    pairs = {}
    for node in stepping.behind(loss.grad_fn):
        if stepping.variable(node) is None:
            row = told.row_of(node)
            pairs[row] = told.op_name(row), modules_around(told, row), modules_around(seen, seen.row_of(node))
    return told, [pairs[row] for row in sorted(pairs)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_op_stands_only_in_boxes_of_modules_that_ran_it(name):
    make, x = PROGRAMS[name]
    recording, pairs = _both(make(), x)
    assert recording.boxed and any(told for _, told, _ in pairs)
    assert [(op, told) for op, told, ran in pairs if told != ran[: len(told)]] == []


@pytest.mark.parametrize("name", ["residual", "language", "twins", "convolutions"])
def test_ops_with_parameters_and_what_ends_a_block_stand_where_they_ran(name):
    model = PROGRAMS[name][0]()
    _, pairs = _both(model, PROGRAMS[name][1])
    owns = {id(module) for module in model.modules() if module._parameters}
    blocks = {id(module) for module in model.modules() if isinstance(module, (Residual, Block, Attention))}
    for op, told, ran in pairs:
        if op in MOVES:
            continue  # one before a module's first weights is not known to be its
        if ran and ran[-1] in owns:
            assert told == ran, op
        assert len(set(told) & blocks) == len(set(ran) & blocks), op  # also the sum and the relu behind the last parameters


def test_a_sequential_ends_with_its_last_layers():
    model = Coded()
    _, pairs = _both(model, torch.randn(2, 3))
    for op, told, ran in pairs:
        assert [m for m in told if m in (id(model.encoder), id(model.decoder))] == [
            m for m in ran if m in (id(model.encoder), id(model.decoder))
        ], op


def test_a_model_that_is_called_again_and_again_has_a_box_for_each_call():
    field = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))

    def integrated(model, out):
        for _ in range(6):
            k = model(out)
            out = out + 0.1 * (k + model(out + 0.1 * k))
        return out.square().mean()

    recording, pairs = _both(field, torch.randn(1, 2), integrated)
    assert len([scope for scope in recording.scopes if scope.subject == id(field)]) == 13
    assert [(op, told) for op, told, ran in pairs if told != ran[: len(told)]] == []


def test_owners_of_a_shared_weight_take_turns():
    model, x = Language(1), torch.tensor([[1, 2, 3, 4, 5]])
    loss = model(x).mean() + model(x + 1).square().mean()
    recording = wb.watch(loss).session.recording
    using = [recording.scopes[recording.scope[row]].name for row in range(recording.count) if recording.op_name(row) in ("embedding", "mm")]
    assert [name for name in using if name in ("tokens", "head")] == ["tokens", "head"] * 2


def test_what_the_same_modules_do_again_is_folded_as_a_loop():
    field = nn.Linear(2, 2)
    out = torch.randn(1, 2)
    for _ in range(8):
        k = field(out)
        out = out + 0.1 * (k + field(out + 0.1 * k))
    groups, _ = wb.watch(out).session.graph.arranged()
    loops = [group for group in groups if group.kind == "loop"]
    assert [(loop.label, loop.count) for loop in loops] == [(f"repeated ×{loops[0].count}", loops[0].count)] and loops[0].count in (6, 7)


def test_of_modules_inside_each_other_the_outer_one_is_called_again():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))

        def forward(self, x):
            return self.net(x**3)

    model = Wrapped()
    recording, _ = _both(model, torch.randn(1, 2), lambda model, out: model(model(out)).sum())
    assert [scope.label for scope in recording.scopes if scope.parent < 0] == ["Wrapped"] * 3


def test_calls_of_one_module_are_boxes_of_their_own():
    for name, module in (("unrolled", "cell"), ("twins", "encoder")):
        make, x = PROGRAMS[name]
        model = make()
        recording, _ = _both(model, x)
        called = [scope for scope in recording.scopes if scope.subject == id(getattr(model, module))]
        assert len(called) == {"cell": 4, "encoder": 2}[module]


def test_a_penalty_on_weights_belongs_to_no_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    penalties = [
        lambda model, out: out.mean() + 0.1 * sum(p.square().sum() for p in model.parameters()),
        lambda model, out: out.mean() + 0.1 * model[0].weight.norm(),
    ]
    for loss_of in penalties:
        _, pairs = _both(model, torch.randn(2, 3), loss_of)
        assert [(op, told) for op, told, ran in pairs if told != ran[: len(told)]] == []


def test_what_is_said_of_the_boxes_is_said_only_of_such():
    model, x = nn.Linear(2, 2), torch.randn(3, 2)
    with wb.watch() as w:
        loss = model(x).sum()
    assert w.session.recording.left_out() == ""
    assert "inferred from the parameters" in wb.watch(loss).session.recording.left_out()
    a = torch.ones(2, requires_grad=True)
    assert wb.watch((a * 2).sum()).session.recording.left_out() == ""
