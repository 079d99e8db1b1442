"""Where a NaN began in backward, held against what PyTorch's detect_anomaly names; and the checks of PyTorch's own recordings."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import engine
import workbench as wb

pytestmark = pytest.mark.torch

PROGRAMS: list[tuple[Callable[[Any], Any], list[float]]] = [
    (lambda x: (x * x).sqrt().mul(0).sum(), [1.0, 0.0]),
    (lambda x: (x.pow(0.5) * 0).exp().sum(), [0.0, 4.0]),
    (lambda x: x.acos().mul(0).sum(), [1.0, 0.5]),
    (lambda x: (x.square().sum().sqrt() * 0).exp(), [0.0, 0.0]),
    (lambda x: (x.tanh() * 2).rsqrt().reciprocal().mul(0).sum(), [0.5, 0.0]),
]


@pytest.mark.parametrize("at", range(len(PROGRAMS)))
def test_the_step_is_the_one_that_pytorch_names(at: int) -> None:
    program, data = PROGRAMS[at]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is on
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as raised:
            program(torch.tensor(data, requires_grad=True)).backward()
    found = re.search(r"'(\w+)Backward\d+' returned nan", str(raised.value))
    assert found is not None
    with wb.record():
        x = engine.tensor(data, requires_grad=True)
        loss = program(x)
        loss.backward()
    finding = next(one for one in wb.check().findings if one.code == "nan-backward")
    assert f"The backward step of {found[1].lower()} " in finding.sentence
    with wb.guard(inf=False), pytest.raises(FloatingPointError, match=f"The backward step of {found[1].lower()} made NaN"):
        program(engine.tensor(data, requires_grad=True)).backward()


def test_programs_of_pytorch_are_checked_too() -> None:
    model, x, y = torch.nn.Linear(4, 3), torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])

    def codes(program: Callable[[], Any]) -> list[str]:
        with wb.watch(model):
            held = program()
        found = [one.code for one in wb.check().findings]
        del held
        return found

    assert codes(lambda: F.cross_entropy(model(x), y).backward()) == []
    assert codes(lambda: F.cross_entropy(model(x).softmax(1), y).backward()) == ["softmax-before-cross-entropy"]
    assert codes(lambda: (model(x) - 100).log().sum()) == ["nan-forward"]
    with pytest.raises(RuntimeError, match="cannot be multiplied"), wb.watch(model):
        model(x).matmul(x)
    (finding,) = wb.check().findings
    assert finding.code == "shape-mismatch" and [operand.marked for operand in finding.operands] == [[1], [0]]


# -- mistakes in programs of PyTorch's, and their corrected twins -----------------------------------------------------------------


class Net(torch.nn.Module):
    """Two layers; `between` is done to what passes from one to the other."""

    def __init__(self, between: Callable[[Any], Any] = torch.relu) -> None:
        super().__init__()
        self.first, self.drop, self.last, self.between = torch.nn.Linear(4, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 3), between

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(self.between(self.first(x))))


def batch() -> tuple[Any, Any]:
    return torch.randn(16, 4), torch.randint(0, 3, (16,))


def train(model: Any, optimizer: Any = None, order: str = "zbs", steps: int = 4) -> Any:
    """A training loop; `order` says in which order zero_grad (z), backward (b) and step (s) come."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(steps):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        for what in order:
            (optimizer.zero_grad if what == "z" else loss.backward if what == "b" else optimizer.step)()
    return model, optimizer


def without_gradient(h: Any) -> Any:
    with torch.no_grad():
        return h * 2


def unused(right: bool) -> Any:
    model = Net()
    if not right:
        model.extra = torch.nn.Linear(2, 2)
    return train(model)


def replaced(right: bool) -> Any:
    model = Net()
    before = torch.optim.Adam(model.parameters())
    model.last = torch.nn.Linear(16, 3)
    return train(model, torch.optim.Adam(model.parameters()) if right else before)


def made_again(right: bool) -> Any:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return train(model if right else Net(), optimizer)


def evaluated(right: bool) -> Any:
    model, optimizer = train(Net())
    model.train(not right)
    with torch.no_grad():
        model(batch()[0])
    return model, optimizer


def trained_in_eval(right: bool) -> Any:
    return train(Net().train(right))


def deep(right: bool) -> Any:
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(4, 4), torch.nn.Tanh() if right else torch.nn.Sigmoid())]
    return train(torch.nn.Sequential(*layers, torch.nn.Linear(4, 3)))


def slope(right: bool) -> Any:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    (x + (1e-6 if right else 0)).sqrt().sum().backward()
    return x


class Stacked(torch.nn.Module):
    def __init__(self, kind: Callable[[list], Any]) -> None:
        super().__init__()
        self.layers, self.last = kind([torch.nn.Linear(4, 4) for _ in range(2)]), torch.nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).tanh()
        return self.last(x)


def written_over(right: bool) -> Any:
    h = torch.randn(3, requires_grad=True).sigmoid()
    g = h.clone() if right else h
    g += 1
    g.sum().backward()
    return g


def twice(right: bool) -> Any:
    w = torch.randn(3, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    if right:
        loss = (w * w).sum()
    loss.backward()
    return w


def stepped_between(right: bool) -> Any:
    """Two losses of one graph, and a step between their passes."""
    first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], 0.1)
    x = torch.randn(8, 4)
    out = last(first(x))
    out.mean().backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    (last(first(x)) if right else out).square().mean().backward()
    return first, last, optimizer


def attended(axis: int) -> Any:
    q, k, v = (torch.randn(2, 5, 4, requires_grad=True) for _ in range(3))
    loss = ((q @ k.transpose(-2, -1)).softmax(axis) @ v).square().mean()
    loss.backward()
    return q, k, v


TWINS: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("missing-zero-grad", lambda: train(Net(), order="bs"), lambda: train(Net())),
    ("step-before-backward", lambda: train(Net(), order="zsb"), lambda: train(Net())),
    ("zero-grad-before-step", lambda: train(Net(), order="bzs"), lambda: train(Net(), order="bsz")),
    ("gradient-cut", lambda: train(Net(lambda h: h.detach())), lambda: train(Net())),
    ("gradient-cut", lambda: train(Net(lambda h: h.data)), lambda: train(Net())),
    ("gradient-cut", lambda: train(Net(without_gradient)), lambda: train(Net(lambda h: h * 2))),
    ("gradient-lost", lambda: train(Net(lambda h: torch.tensor(h.tolist()))), lambda: train(Net())),
    ("unused-parameter", lambda: unused(False), lambda: unused(True)),
    ("not-in-optimizer", lambda: replaced(False), lambda: replaced(True)),
    ("optimizer-of-another-model", lambda: made_again(False), lambda: made_again(True)),
    ("train-mode-in-evaluation", lambda: evaluated(False), lambda: evaluated(True)),
    ("eval-mode-in-training", lambda: trained_in_eval(False), lambda: trained_in_eval(True)),
    ("vanishing-gradient", lambda: deep(False), lambda: deep(True)),
    ("inf-backward", lambda: slope(False), lambda: slope(True)),
    ("unregistered-module", lambda: train(Stacked(list)), lambda: train(Stacked(torch.nn.ModuleList))),
    ("in-place-overwrite", lambda: written_over(False), lambda: written_over(True)),
    ("in-place-overwrite", lambda: stepped_between(False), lambda: stepped_between(True)),
    ("backward-twice", lambda: twice(False), lambda: twice(True)),
    ("softmax-axis", lambda: attended(0), lambda: attended(-1)),
]


@pytest.mark.parametrize("at", range(len(TWINS)))
def test_a_mistake_is_found_in_a_program_of_pytorchs_and_not_in_its_twin(at: int) -> None:
    code, wrong, right = TWINS[at]
    for program, expected in ((wrong, True), (right, False)):
        torch.manual_seed(0)
        held: Any = None
        with suppress(RuntimeError), wb.watch():  # an error that ends it is what it was looked at for
            held = program()
        found = [one.code for one in wb.check().findings if one.severity != "note"]
        assert (code in found) if expected else found == [], found
        del held


def test_both_lines_of_an_in_place_write_and_of_an_axis_are_told() -> None:
    with suppress(RuntimeError), wb.watch():
        written_over(False)
    finding = next(one for one in wb.check().findings if one.code == "in-place-overwrite")
    assert finding.site is not None and finding.site.text == "g += 1"
    assert "the result of sigmoid at line" in finding.sentence
    with suppress(RuntimeError), wb.watch():
        stepped_between(False)
    finding = next(one for one in wb.check().findings if one.code == "in-place-overwrite")
    assert finding.site is not None and finding.site.text == "optimizer.step()"


def test_an_error_of_the_engine_is_told_although_torch_is_watched_too() -> None:
    """A cell under %%watch has a recording for each library; the empty one does not stand before the other."""
    with suppress(RuntimeError), wb.watch():
        engine.matmul(engine.ones(2, 3), engine.ones(2, 3))
    assert [one.code for one in wb.check().findings] == ["shape-mismatch"]


def test_the_guard_stops_pytorch_at_the_very_op_and_at_the_backward_step() -> None:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()

    def line(mark: str) -> int:
        return next(at for at, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))

    with pytest.raises(FloatingPointError, match=r"log made NaN \(test_torch_checks\.py, line (\d+)\): result\[1\]") as raised, wb.guard():
        torch.tensor([4.0, -1.0]).log()  # the forward op
    assert f"line {line('the forward op')})" in str(raised.value)
    x = torch.tensor([4.0, 0.0], requires_grad=True)
    with wb.guard():
        root = x.sqrt()  # the op
        loss = root.sum()
        with pytest.raises(FloatingPointError, match=r"backward step of sqrt made \+Inf.*the gradient of input\[1\]") as raised:
            loss.backward()
    assert f"line {line('the op')})" in str(raised.value)
    with wb.guard(inf=False):
        x.exp().mul(1e39).exp()
    with wb.guard():  # a mask, and a training that is well
        hidden = torch.zeros(2, 2).masked_fill(torch.tensor([[False, True], [False, False]]), float("-inf"))
        assert hidden.softmax(-1).tolist() == [[1.0, 0.0], [0.5, 0.5]]
        train(Net())
    torch.tensor([-1.0]).log()  # outside the block nothing is looked at


def test_memory_that_has_no_numbers_yet_does_not_stop_the_guard() -> None:
    torch.use_deterministic_algorithms(True)  # PyTorch fills what it only allocates with NaN then
    try:
        assert torch.isnan(torch.empty(2)).all()
        with wb.guard():
            model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.LSTM(8, 4))
            model[:3](torch.randn(2, 1, 4, 4)).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_guard_leaves_no_hook_in_a_graph_of_pytorchs() -> None:
    x = torch.tensor([0.0], requires_grad=True)
    with wb.guard():
        loss = x.sqrt().sum()
    loss.backward()
    assert x.grad is not None and torch.isinf(x.grad).all()


def test_a_nan_is_found_behind_ops_that_the_engine_cannot_run_again() -> None:
    model = torch.nn.Linear(4, 4)
    with wb.watch(model, keep=0) as w:  # the values are freed: the search would compute them again
        x = model(torch.ones(3, 4))[None, None]
        loss = F.scaled_dot_product_attention(x, x, x).square().sum().neg().log()
        loss.backward()
    (found,) = wb.check(w).findings
    assert (found.code, found.sentence.partition(" is ")[0]) == ("nan-forward", "log")


def test_why_says_that_it_searches_for_tensors_of_the_engine() -> None:
    with pytest.raises(TypeError, match=r"got torch\.Tensor; references to PyTorch tensors are not searched: wb\.memory\(\)"):
        wb.why_alive(torch.ones(2))


def test_an_optimizer_inside_a_function_and_a_target_network_are_no_mistakes() -> None:
    model, target = Net(), Net()

    def program() -> None:
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        for _ in range(4):
            with torch.no_grad():
                wanted = target(batch()[0]).max(1)[0]
            loss = F.smooth_l1_loss(model(batch()[0])[:, 0], wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for old, new in zip(target.parameters(), model.parameters(), strict=True):
                    old.mul_(0.9).add_(new, alpha=0.1)  # a call that the engine's own op of that name cannot sort

    target.eval()
    with wb.watch() as w:
        program()
    assert [one.code for one in wb.check().findings] == []
    assert any(w.session.recording.op_name(row) == "add" for row in range(w.session.recording.count))
