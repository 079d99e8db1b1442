"""The checks: each mistake is found where it is, and its corrected twin is left in peace."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import numpy
import pytest
import walked
from hypothesis import given, settings

import engine
import engine.data
import engine.nn.functional as F
import workbench as wb
from engine import nn, observe
from engine.optim import SGD, Adam
from workbench import protocol
from workbench.checks import shapes
from workbench.checks.look import flags, look
from workbench.recorder import Recorder
from workbench.session import Session

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "engine"))
import programs  # noqa: E402 # pyright: ignore[reportMissingImports]

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))

Program = Callable[[], Any]


def checked(program: Program, keep: int | None = None) -> Any:
    """What wb.check says of the program; an error that ends it is what it was looked at for."""
    engine.manual_seed(0)
    held = []  # what the user still has
    try:
        with wb.record(keep=keep):
            held.append(program())
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        held.append(str(error))
    return wb.check()


def one(report: Any, code: str) -> Any:
    found = [finding for finding in report.findings if finding.code == code]
    assert found, f"{code} not in {[finding.code for finding in report.findings]}"
    return found[0]


# -- mistakes and their corrected twins ----------------------------------------------------------------------------------------


def batch(n: int = 8, features: int = 4, classes: int = 3) -> tuple[Any, Any]:
    return engine.randn(n, features), engine.randint(0, classes, (n,))


class Net(nn.Module):
    def __init__(self, **modules: nn.Module) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        if hasattr(self, "drop"):
            h = self.drop(h)
        return self.last(F.tanh(h))


def train(
    model: nn.Module, optimizer: Any, steps: int = 4, zero: bool = True, order: str = "zbs",
    loss_of: Any = F.cross_entropy, data: Any = None,
) -> Any:  # fmt: skip
    """A training loop; `order` says in which order zero_grad (z), backward (b) and step (s) come."""
    losses = []
    for _ in range(steps):
        x, y = (data or batch)()
        loss = loss_of(model(x), y)
        for what in order:
            if what == "z" and zero:
                optimizer.zero_grad()
            elif what == "b":
                loss.backward()
            elif what == "s":
                optimizer.step()
        losses.append(loss.item())
    return model, optimizer, losses


def plain(**options: Any) -> Any:
    model = Net()
    return train(model, SGD(model.parameters(), 0.05), **options)


def by_hand(clears: bool) -> Any:
    w = engine.randn(4, 3, requires_grad=True)
    for _ in range(4):
        x, y = batch()
        F.cross_entropy(x @ w, y).backward()
        with engine.no_grad():
            assert w.grad is not None
            w -= 0.1 * w.grad
        if clears:
            w.grad = None
    return w


def made_again(right: bool) -> Any:
    model = Net()
    optimizer = SGD(model.parameters(), 0.1)
    if not right:
        model = Net()
    return train(model, optimizer)


def half_given(right: bool) -> Any:
    model = Net()
    return train(model, SGD((model if right else model.first).parameters(), 0.1))


def evaluated(right: bool) -> Any:
    model = Net(drop=nn.Dropout(0.5))
    kept = train(model, SGD(model.parameters(), 0.1))
    if right:
        model.eval()
    with engine.no_grad():
        model(batch()[0])
    return kept


def trained_in_eval(right: bool) -> Any:
    model = Net(drop=nn.BatchNorm1d(8))
    model.train(right)
    return train(model, SGD(model.parameters(), 0.05))


def cut(how: str) -> Any:
    model = Net()
    x, y = batch()
    h = F.tanh(model.first(x))
    h = CUTS[how](h)
    loss = F.cross_entropy(model.last(h), y)
    loss.backward()
    return model, loss


def cut_by_detach() -> Any:
    model, (x, y) = Net(), batch()
    h = F.tanh(model.first(x))
    fixed = h.detach()
    F.cross_entropy(model.last(fixed), y).backward()
    return model


def cut_by_data() -> Any:
    model, (x, y) = Net(), batch()
    h = F.tanh(model.first(x))
    fixed = h.data
    F.cross_entropy(model.last(fixed), y).backward()
    return model


def by_no_grad(h: Any) -> Any:
    with engine.no_grad():
        return h * 2


def by_numpy(h: Any) -> Any:
    array = h.detach().numpy()
    return engine.tensor(array * 2)


CUTS: dict[str, Callable[[Any], Any]] = {
    "": lambda h: h, "no_grad": by_no_grad, "numpy": by_numpy
}  # fmt: skip


def cut_by_item(right: bool) -> Any:
    a, b = nn.Linear(4, 1), nn.Linear(4, 1)
    x = engine.randn(5, 4)
    scale = a(x).mean()
    loss = (b(x) * (scale if right else scale.item())).square().mean()
    loss.backward()
    return a, b


def whole_numbers(right: bool) -> Any:
    model = Net()
    x, y = batch()
    scores = model(x)
    loss = F.cross_entropy(scores, y) if right else (scores.argmax(1) == y).float().mean()
    loss.backward()
    return model


def unused_layer(right: bool) -> Any:
    model = Net() if right else Net(extra=nn.Linear(2, 2))
    return train(model, SGD(model.parameters(), 0.05))


def regression(squeezes: bool) -> Any:
    model = nn.Linear(4, 1)
    x, y = engine.randn(8, 4), engine.randn(8)
    out = model(x)
    loss = ((out.squeeze(-1) if squeezes else out) - y).pow(2).mean()
    loss.backward()
    return model


def regression_mse(right: bool) -> Any:
    model = nn.Linear(4, 1)
    x, y = engine.randn(8, 4), engine.randn(8)
    with pytest.warns(UserWarning, match="target size") if not right else wb.scope("loss"):
        loss = F.mse_loss(model(x), y.unsqueeze(1) if right else y)
    loss.backward()
    return model


def summed(items: bool) -> Any:
    model = Net()
    optimizer, total = SGD(model.parameters(), 0.05), 0.0
    for _ in range(4):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + (loss.item() if items else loss)
    return total


def scores(make: Callable[[Any, Any], Any]) -> Program:
    def program() -> Any:
        model = Net()
        x, y = batch()
        loss = make(model(x), y)
        loss.backward()
        return model

    return program


def binary(make: Callable[[Any, Any], Any]) -> Program:
    def program() -> Any:
        model = nn.Linear(4, 1)
        loss = make(model(engine.randn(8, 4)), engine.ones(8, 1))
        loss.backward()
        return model

    return program


def rate(lr: float) -> Any:
    model = Net()
    return train(model, SGD(model.parameters(), lr), steps=6)


def same_batches(right: bool) -> Any:
    x, y = batch(32)
    data = engine.data.TensorDataset(x, y)
    loader = engine.data.DataLoader(data, batch_size=8)
    turns = iter(loader)
    return plain(data=(lambda: next(turns)) if right else (lambda: next(iter(loader))))


def shuffled(both: bool) -> Any:
    model, (x, y) = Net(), batch()
    order = engine.tensor([3, 1, 0, 2, 7, 6, 5, 4])
    F.cross_entropy(model(x[order] if both else x), y[order]).backward()
    return model


def tracked_data(right: bool) -> Any:
    return plain(data=lambda: (engine.randn(8, 4, requires_grad=not right), batch()[1]))


def outputs(used: bool) -> Any:
    model, extra = Net(), nn.Linear(3, 3)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.extra = model, extra

        def forward(self, x: Any) -> Any:
            out = self.model(x)
            more = self.extra(out)
            return out + more if used else out

    both = Both()
    return train(both, SGD(both.parameters(), 0.05))


def written_over(clones: bool) -> Any:
    w = engine.randn(3, requires_grad=True)
    h = w.exp()
    g = h.clone() if clones else h
    g.add_(1)
    g.sum().backward()
    return w


def twice(right: bool) -> Any:
    w = engine.randn(3, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    if right:
        loss = (w * w).sum()
    loss.backward()
    return w


def deep(right: bool) -> Any:
    layers: list[nn.Module] = []
    for _ in range(12):
        layers += [nn.Linear(8, 8), nn.ReLU() if right else nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(8, 3))
    if right:
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
    F.cross_entropy(model(engine.randn(8, 8)), batch()[1]).backward()
    return model


def exploding(scale: float) -> Any:
    model = nn.Sequential(*[nn.Linear(16, 16, bias=False) for _ in range(8)])
    with engine.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    model(engine.randn(4, 16)).square().mean().backward()
    return model


def dead(bias: float) -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    with engine.no_grad():
        model[0].bias.fill_(bias)
    F.cross_entropy(model(engine.randn(64, 4)), engine.randint(0, 3, (64,))).backward()
    return model


def saturated(scale: float) -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    F.cross_entropy(model(scale * engine.randn(16, 4)), engine.randint(0, 3, (16,))).backward()
    return model


def failing(make: Callable[[], Any]) -> Program:
    return lambda: make()


def evaluation_left_on(right: bool) -> Any:
    """After the first epoch the model is evaluated; train() is called again, or it is not."""
    model = Net(drop=nn.Dropout(0.5))
    optimizer = SGD(model.parameters(), 0.05)
    for _ in range(2):
        if right:
            model.train()
        train(model, optimizer, steps=2)
        model.eval()
        with engine.no_grad():
            model(batch()[0])
    return model, optimizer


class Scaled(nn.Module):
    def __init__(self, scale: Any) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)
        self.scale = scale

    def forward(self, x: Any) -> Any:
        return self.last(x) * self.scale


class Stacked(nn.Module):
    def __init__(self, kind: Callable[[list], Any]) -> None:
        super().__init__()
        self.layers = kind([nn.Linear(4, 4) for _ in range(3)])
        self.last = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = F.tanh(layer(x))
        return self.last(x)


def trained(model: nn.Module, lr: float = 0.05, **options: Any) -> Any:
    return train(model, SGD(model.parameters(), lr), **options)


def repeated(layers: list[nn.Module]) -> Any:
    return trained(nn.Sequential(*layers, nn.Linear(4, 3)))


def layer_replaced(right: bool) -> Any:
    model = Net()
    before = Adam(model.parameters())
    model.last = nn.Linear(8, 3)
    return train(model, Adam(model.parameters()) if right else before)


def frozen(part: str) -> Any:
    model = Net()
    for p in getattr(model, part).parameters():
        p.requires_grad = False
    return trained(model)


def clipped(most: float) -> Any:
    model, (x, y) = Net(), batch()
    optimizer = SGD(model.parameters(), 0.05)
    for _ in range(4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), most)
        optimizer.step()
    return model, optimizer


def regressed(lr: float) -> Any:
    """Least squares of 4 features: the largest eigenvalue of the Hessian is about 2, so that steps longer than 1 diverge."""
    model = nn.Linear(4, 1)
    optimizer = SGD(model.parameters(), lr)
    x = engine.randn(32, 4)
    y = x.sum(1, keepdim=True)
    for _ in range(8):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return model, optimizer


def killed(dies: bool) -> Any:
    """The units are alive at first; the third step throws all biases far below zero, and from then on they are dead."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = SGD(model.parameters(), 0.001)
    for step in range(8):
        x = engine.randn(64, 4)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        if dies and step == 2:
            with engine.no_grad():
                model[0].bias.fill_(-100.0)
    return model, optimizer


def attended(axis: int) -> Any:
    q, k, v = (engine.randn(2, 5, 4, requires_grad=True) for _ in range(3))
    weights = (q @ k.transpose(-2, -1)).softmax(axis)
    loss = (weights @ v).square().mean()
    loss.backward()
    return q, k, v, loss


def collected(items: bool) -> Any:
    model, losses = Net(), []
    for _ in range(4):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        losses.append(loss.item() if items else loss)
    return model, losses


def fully_masked(right: bool) -> Any:
    scores = engine.randn(3, 4, requires_grad=True)
    mask = engine.arange(4)[None, :] >= engine.tensor([4, 2, 1 if right else 0])[:, None]
    loss = scores.masked_fill(mask, float("-inf")).softmax(-1).square().sum()
    loss.backward()
    return scores, loss


X, Y = numpy.ones((4, 3), "float32"), numpy.array([0, 1, 2, 0])


def tensor(array: Any) -> Any:
    return engine.tensor(array)


def not_finite(make: Callable[[Any], Any], value: float) -> Program:
    def program() -> Any:
        x = engine.tensor([1.0, value, 2.0], requires_grad=True)
        loss = make(x)
        loss.backward()
        return x, loss

    return program


TWINS: list[tuple[str, Program, Program]] = [
    ("missing-zero-grad", lambda: plain(zero=False), plain),
    ("missing-zero-grad", lambda: by_hand(False), lambda: by_hand(True)),
    ("step-before-backward", lambda: plain(order="zsb"), plain),
    ("zero-grad-before-step", lambda: plain(order="bzs"), lambda: plain(order="bsz")),
    ("optimizer-of-another-model", lambda: made_again(False), lambda: made_again(True)),
    ("not-in-optimizer", lambda: half_given(False), lambda: half_given(True)),
    ("train-mode-in-evaluation", lambda: evaluated(False), lambda: evaluated(True)),
    ("eval-mode-in-training", lambda: trained_in_eval(False), lambda: trained_in_eval(True)),
    ("gradient-cut", cut_by_detach, lambda: cut("")),
    ("gradient-cut", cut_by_data, lambda: cut("")),
    ("gradient-cut", lambda: cut("no_grad"), lambda: cut("")),
    ("gradient-lost", lambda: cut("numpy"), lambda: cut("")),
    ("gradient-lost", lambda: cut_by_item(False), lambda: cut_by_item(True)),
    ("loss-detached", lambda: whole_numbers(False), lambda: whole_numbers(True)),
    ("unused-parameter", lambda: unused_layer(False), lambda: unused_layer(True)),
    ("broadcast-in-loss", lambda: regression(False), lambda: regression(True)),
    ("broadcast-in-loss", lambda: regression_mse(False), lambda: regression_mse(True)),
    ("loss-without-item", lambda: summed(False), lambda: summed(True)),
    ("softmax-before-cross-entropy", scores(lambda s, y: F.cross_entropy(s.softmax(1), y)), scores(F.cross_entropy)),
    ("nll-without-log-softmax", scores(F.nll_loss), scores(lambda s, y: F.nll_loss(F.log_softmax(s, dim=1), y))),
    ("log-of-softmax", scores(lambda s, y: F.nll_loss(s.softmax(1).log(), y)), scores(lambda s, y: F.nll_loss(s.log_softmax(1), y))),
    (
        "sigmoid-twice",
        binary(lambda s, y: F.binary_cross_entropy_with_logits(s.sigmoid(), y)),
        binary(F.binary_cross_entropy_with_logits),
    ),
    ("sigmoid-then-bce", binary(lambda s, y: F.binary_cross_entropy(s.sigmoid(), y)), binary(F.binary_cross_entropy_with_logits)),
    ("flat-op", binary(lambda s, y: (s.round() - y).square().mean()), binary(lambda s, y: (s + (s.round() - s).detach() - y).square().mean())),
    ("float64-loss", binary(lambda s, y: (s - y.double()).square().mean()), binary(lambda s, y: (s - y).square().mean())),
    ("learning-rate-too-large", lambda: rate(100.0), lambda: rate(0.05)),
    ("learning-rate-zero", lambda: rate(1e-13), lambda: rate(0.05)),
    ("same-batch", lambda: same_batches(False), lambda: same_batches(True)),
    ("targets-shuffled-alone", lambda: shuffled(False), lambda: shuffled(True)),
    ("data-requires-grad", lambda: tracked_data(False), lambda: tracked_data(True)),
    ("unused-output", lambda: outputs(False), lambda: outputs(True)),
    ("in-place-overwrite", lambda: written_over(False), lambda: written_over(True)),
    ("backward-twice", lambda: twice(False), lambda: twice(True)),
    ("vanishing-gradient", lambda: deep(False), lambda: deep(True)),
    ("exploding-gradient", lambda: exploding(30.0), lambda: exploding(1.0)),
    ("dead-units", lambda: dead(-100.0), lambda: dead(0.5)),
    ("saturated", lambda: saturated(100.0), lambda: saturated(0.5)),
    ("shape-mismatch", lambda: tensor(X) @ tensor(X), lambda: tensor(X) @ tensor(X).T),
    ("shape-mismatch", lambda: nn.LSTM(4, 5)(engine.randn(2, 2, 3)), lambda: nn.LSTM(3, 5)(engine.randn(2, 2, 3))),
    ("labels-out-of-range", lambda: F.cross_entropy(tensor(X), tensor(Y + 1)), lambda: F.cross_entropy(tensor(X), tensor(Y))),
    ("target-dtype", lambda: F.cross_entropy(tensor(X), tensor(Y.astype("float32"))), lambda: F.cross_entropy(tensor(X), tensor(Y))),
    ("dtype-mismatch", lambda: nn.Linear(3, 2)(tensor(X).double()), lambda: nn.Linear(3, 2)(tensor(X))),
    ("not-a-probability", lambda: F.binary_cross_entropy(5 * tensor(X), tensor(X)), lambda: F.binary_cross_entropy(0.5 * tensor(X), tensor(X))),
    ("not-a-scalar", lambda: (engine.ones(3, requires_grad=True) * 2).backward(), lambda: (engine.ones(3, requires_grad=True) * 2).sum().backward()),
    ("leaf-written", lambda: engine.ones(3, requires_grad=True).add_(1), lambda: engine.ones(3).add_(1)),
    ("numpy-of-tracked", lambda: (engine.ones(3, requires_grad=True) * 2).numpy(), lambda: (engine.ones(3) * 2).numpy()),
    ("batch-of-one", lambda: nn.BatchNorm1d(3)(engine.randn(1, 3)), lambda: nn.BatchNorm1d(3)(engine.randn(2, 3))),
    ("nan-forward", not_finite(lambda x: x.log().sum(), -1.0), not_finite(lambda x: x.log().sum(), 3.0)),
    ("inf-forward", not_finite(lambda x: x.exp().sum(), 1000.0), not_finite(lambda x: x.exp().sum(), 3.0)),
    ("inf-backward", not_finite(lambda x: x.sqrt().sum(), 0.0), not_finite(lambda x: x.sqrt().sum(), 3.0)),
    ("nan-backward", not_finite(lambda x: (x * x).sqrt().mul(0).sum(), 0.0), not_finite(lambda x: (x * x).sqrt().mul(0).sum(), 3.0)),
    (
        "nan-hidden",
        not_finite(lambda x: engine.where(x > 0, x.log(), engine.zeros(3)).sum(), -1.0),
        not_finite(lambda x: engine.where(x > 0, x.clamp(min=1e-3).log(), engine.zeros(3)).sum(), -1.0),
    ),
    ("eval-mode-in-training", lambda: evaluation_left_on(False), lambda: evaluation_left_on(True)),
    ("unregistered-parameter", lambda: trained(Scaled(engine.ones(3, requires_grad=True))), lambda: trained(Scaled(nn.Parameter(engine.ones(3))))),
    ("unregistered-tensor", lambda: trained(Scaled(engine.ones(3))), lambda: trained(Scaled(1.0))),
    ("unregistered-module", lambda: trained(Stacked(list)), lambda: trained(Stacked(nn.ModuleList))),
    ("unregistered-module", lambda: trained(Stacked(tuple)), lambda: trained(Stacked(nn.ModuleList))),
    ("shared-module", lambda: repeated([nn.Linear(4, 4)] * 3), lambda: repeated([nn.Linear(4, 4) for _ in range(3)])),
    ("not-in-optimizer", lambda: layer_replaced(False), lambda: layer_replaced(True)),
    ("frozen-output", lambda: frozen("last"), lambda: frozen("first")),
    ("zero-gradient", lambda: clipped(0.0), lambda: clipped(1.0)),
    ("zero-gradient", lambda: killed(True), lambda: killed(False)),
    ("dead-units", lambda: killed(True), lambda: killed(False)),
    ("learning-rate-too-large", lambda: regressed(100.0), lambda: regressed(0.1)),
    ("softmax-axis", lambda: attended(0), lambda: attended(-1)),
    ("softmax-axis", lambda: attended(1), lambda: attended(2)),
    ("softmax-axis", scores(lambda s, y: F.nll_loss(s.log_softmax(0), y)), scores(lambda s, y: F.nll_loss(s.log_softmax(1), y))),
    ("loss-without-item", lambda: collected(False), lambda: collected(True)),
    ("nan-forward", lambda: fully_masked(False), lambda: fully_masked(True)),
    ("nan-input", not_finite(lambda x: (x * 2).sum(), float("nan")), not_finite(lambda x: (x * 2).sum(), 3.0)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "mistake", "corrected"), [pytest.param(*twin, id=f"{at}-{twin[0]}") for at, twin in enumerate(TWINS)])
def test_a_mistake_is_found_and_its_corrected_twin_is_left_in_peace(code: str, mistake: Program, corrected: Program) -> None:
    report = checked(mistake)
    finding = one(report, code)
    assert finding.sentence.endswith(".") and finding.why and finding.fix
    assert finding.code in repr(report) and finding.fix in repr(report)
    assert finding.site is not None or finding.node >= 0 or code == "unused-parameter"
    assert [found.code for found in checked(corrected).findings] == []


@pytest.mark.parametrize(
    ("program", "codes"),
    [
        (lambda: fully_masked(False), ["nan-forward"]),  # not the mask's infinities
        (lambda: written_over(False), ["in-place-overwrite"]),  # the pass did not end: nothing is said of missing gradients
        (lambda: plain(order="zsb"), ["step-before-backward"]),
        (lambda: clipped(0.0), ["zero-gradient"]),  # not the learning rate
        (lambda: regressed(100.0), ["learning-rate-too-large"]),  # not the gradient that explodes because of it
        (lambda: trained(Stacked(list)), ["unregistered-module"]),
        (lambda: trained(Scaled(engine.ones(3, requires_grad=True))), ["unregistered-parameter"]),  # not data with a gradient
        (not_finite(lambda x: (x.exp() * engine.tensor([1.0, 1.0, 0.0])).sum() * 0, 1000.0), ["inf-forward", "nan-forward"]),
    ],
)
def test_the_cause_is_told_and_not_what_follows_from_it(program: Program, codes: list[str]) -> None:
    found = checked(program).findings
    assert [one.code for one in found] == codes and all(one.severity == "error" for one in found if one.code.startswith(("inf", "nan")))


def test_an_infinity_is_told_where_it_is_made_and_a_sum_of_both_by_its_reason() -> None:
    def program() -> Any:
        x = engine.tensor([1000.0, 1.0, 1000.0], requires_grad=True)
        loss = (x.exp() * engine.tensor([1.0, 1.0, -1.0])).mean()
        loss.backward()
        return x, loss

    made, after = checked(program).findings
    assert made.code == "inf-forward" and made.sentence.startswith("exp made the first +Inf")
    assert after.code == "nan-forward" and "+Inf and −Inf" in after.why and "empty" not in after.fix


def test_of_several_infinities_the_first_is_told() -> None:
    def program() -> Any:
        x = engine.tensor([1000.0, 1.0], requires_grad=True)
        first = x.exp()
        second = (x * 2).exp()
        loss = first.sum() + second.sum()
        loss.backward()
        return x, loss

    assert line_of(checked(program), "inf-forward") == "first = x.exp()"


def test_a_unit_that_was_alive_in_any_call_is_not_dead() -> None:
    """One model, called with x and with -x: what one call has at 0 the other has not, but for the units that are 0 in both."""
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 3))
    x, y = engine.ones(64, 4), engine.randint(0, 3, (64,))
    with engine.no_grad():
        model[0].weight.copy_(engine.tensor([[1.0] * 4] * 4 + [[-1.0] * 4] * 2 + [[0.0] * 4] * 2))

    def program(*signs: int) -> Any:
        for sign in signs:
            F.cross_entropy(model(sign * x), y).backward()
        return model

    assert one(checked(lambda: program(1)), "dead-units").sentence.startswith("4 of 8 units")
    assert one(checked(lambda: program(-1)), "dead-units").sentence.startswith("6 of 8 units")
    assert one(checked(lambda: program(-1, 1)), "dead-units").sentence.startswith("2 of 8 units")


def test_an_optimizer_inside_a_function_updates_its_parameters() -> None:
    """It is gone when the checks look."""
    model = Net()

    def program() -> Any:
        train(model, SGD(model.parameters(), 0.05))

    assert checked(program).findings == []
    assert [one.code for one in checked(lambda: train(model, SGD(model.first.parameters(), 0.05)) and None).findings] == [
        "not-in-optimizer"
    ]


def test_what_no_optimizer_has_is_not_expected_to_learn() -> None:
    """Deep Q-learning: the target network runs under no_grad(), and is moved towards the other one."""
    model, target = Net(), Net()
    target.load_state_dict(model.state_dict())
    optimizer = Adam(model.parameters(), 1e-3)

    def program() -> Any:
        for _ in range(4):
            x, _ = batch()
            with engine.no_grad():
                wanted = target(batch()[0]).max(1)[0]
            loss = F.smooth_l1_loss(model(x)[engine.arange(8), 0], wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with engine.no_grad():
                for old, new in zip(target.parameters(), model.parameters(), strict=True):
                    old.mul_(0.9).add_(new, alpha=0.1)

    assert checked(program).findings == []


def test_the_line_of_a_layer_that_is_not_registered_or_not_called_is_told() -> None:
    assert (
        line_of(checked(lambda: trained(Stacked(list))), "unregistered-module") == "self.layers = kind([nn.Linear(4, 4) for _ in range(3)])"
    )
    assert line_of(checked(lambda: trained(Scaled(engine.ones(3, requires_grad=True)))), "unregistered-parameter") == "self.scale = scale"

    class Idle(Scaled):
        def __init__(self) -> None:
            super().__init__(1.0)
            self.extra = nn.Linear(2, 2)

    assert line_of(checked(lambda: trained(Idle())), "unused-parameter") == "self.extra = nn.Linear(2, 2)"


def test_where_a_number_was_taken_of_the_loss_is_told_also_when_the_tensor_has_no_name() -> None:
    def program() -> Any:
        model = nn.Linear(4, 1)
        number = F.mse_loss(model(engine.randn(8, 4)), engine.zeros(8, 1)).item()
        engine.tensor(number, requires_grad=True).backward()
        return model

    assert "number = F.mse_loss(model(engine.randn(8, 4)), engine.zeros(8, 1)).item()" in one(checked(program), "gradient-lost").sentence


# -- where, and with what ------------------------------------------------------------------------------------------------------


def line_of(report: Any, code: str) -> str:
    site = one(report, code).site
    assert site is not None
    return site.text


def test_the_first_op_that_makes_a_nan_is_named_with_its_operands_also_when_no_value_was_kept() -> None:
    data = numpy.array([[0.5, 2.0, -3.0], [-1.0, 1.0, 4.0]], "float32")
    with numpy.errstate(all="ignore"):
        at = tuple(int(i) for i in numpy.argwhere(numpy.isnan(numpy.log(data - 1)))[0])

    def program() -> Any:
        x = engine.tensor(data, requires_grad=True)
        shifted = x - 1
        safe = shifted.abs() + 1
        loss = (shifted.log() * safe).sum()
        loss.backward()
        return x, loss

    for keep in (None, 0):
        report = checked(program, keep)
        finding = one(report, "nan-forward")
        assert finding.sentence.startswith("log made the first NaN") and f"[{', '.join(map(str, at))}] and 2 more" in finding.sentence
        assert finding.site.text == "loss = (shifted.log() * safe).sum()"
        (operand,) = finding.operands
        assert operand.value.endswith(f"= {data[at] - 1:.4g}".replace("-", "−")) and operand.shape == [2, 3]
        assert "negative" in finding.why


def test_the_pass_of_a_long_loop_in_which_it_began_is_told() -> None:
    """2 is squared in each pass, until it is beyond float32."""

    def program() -> Any:
        w = engine.tensor([2.0], requires_grad=True)
        for _ in range(12):
            y = w.square()
            y.sum().backward()
            with engine.no_grad():
                w.copy_(y)
            w.grad = None
        return w

    first = next(k for k in range(1, 12) if 2 ** (2**k) > float(numpy.finfo("float32").max))
    for keep in (None, 0):
        finding = one(checked(program, keep), "inf-forward")
        assert f"in pass {first}" in finding.sentence and finding.sentence.startswith("square made the first +Inf")


@pytest.mark.parametrize("keep", [None, 0])
def test_the_first_backward_step_is_named_with_its_rule_and_upstream(keep: int | None) -> None:
    def program() -> Any:
        x = engine.tensor([4.0, 0.0, 9.0], requires_grad=True)
        loss = (x.sqrt() * 3).exp().sum()
        loss.backward()
        return x, loss

    finding = one(checked(program, keep), "inf-backward")
    assert (
        finding.sentence.startswith("The backward step of sqrt made the first +Inf")
        and "[1]" in finding.sentence
        and "d_input =" in finding.sentence
    )
    assert finding.site is not None and finding.site.text == "loss = (x.sqrt() * 3).exp().sum()"
    upstream = finding.operands[0]
    assert upstream.name == "g" and upstream.value == "g[1] = 3"  # 3 · exp(0)


def test_a_bad_gradient_in_a_loop_is_told_before_the_parameters_that_it_spoils() -> None:
    def program() -> Any:
        w = engine.tensor([1.0, 2.0], requires_grad=True)
        optimizer = SGD([w], 0.5)
        for turn in range(6):
            optimizer.zero_grad()
            ((w * (0.0 if turn == 3 else 1.0)).sqrt().sum() * 0.1).backward()
            optimizer.step()
        return w, optimizer

    report = checked(program)
    finding = next(one for one in report.findings if one.code in ("inf-backward", "nan-backward"))
    assert "of pass 4" in finding.sentence and "sqrt" in finding.sentence
    assert not [one for one in report.findings if one.code.endswith(("-forward", "-input"))]


def test_a_mask_of_infinities_is_no_finding() -> None:
    def program() -> Any:
        scores = engine.randn(3, 3, requires_grad=True)
        mask = engine.ones(3, 3).tril() == 0
        loss = scores.masked_fill(mask, float("-inf")).softmax(-1).square().sum()
        loss.backward()
        return scores, loss

    assert checked(program).findings == []


def test_both_lines_of_an_in_place_write_are_named() -> None:
    finding = one(checked(lambda: written_over(False)), "in-place-overwrite")
    assert finding.site.text == "g.add_(1)"
    saved, wrote = finding.operands
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(at for at, text in enumerate(lines, 1) if text == "    h = w.exp()")
    assert f"exp at line {number} of test_checks.py" in finding.sentence and "exp saved" in saved.words and wrote.words == "wrote over it"


@pytest.mark.parametrize(
    ("program", "line", "says"),
    [
        (cut_by_detach, "fixed = h.detach()", "detached"),
        (cut_by_data, "fixed = h.data", "detached"),
        (lambda: cut("no_grad"), "return h * 2", "no_grad()"),
        (lambda: cut("numpy"), "", "the loss does not depend"),
    ],
)
def test_where_a_gradient_is_cut_off_is_told(program: Program, line: str, says: str) -> None:
    finding = one(checked(program), "gradient-cut" if line else "gradient-lost")
    assert says in finding.sentence and re.search(r"reaches \w+\.weight and \w+\.bias", finding.sentence)
    if line:
        assert finding.site.text == line
    if "detached" in says:
        number = next(at for at, text in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1) if text.strip() == line)
        assert f"line {number}" in finding.sentence


def test_what_gradients_are_told_in_depth_order() -> None:
    finding = one(checked(lambda: deep(False)), "vanishing-gradient")
    names = [operand.name for operand in finding.operands]
    assert names == sorted(names, key=lambda name: (int(name.split(".")[0]), name.endswith("bias"))) and names[0] == "0.weight"


def test_nan_is_not_called_saturated() -> None:
    def program() -> Any:
        x = engine.tensor([[1.0, float("nan")]] * 40, requires_grad=True)
        loss = x.relu().sum()
        loss.backward()
        return x, loss

    assert "saturated" not in [one.code for one in checked(program).findings]


def test_dead_units_are_counted() -> None:
    finding = one(checked(lambda: dead(-100.0)), "dead-units")
    assert finding.sentence.startswith("8 of 8 units of 1 relu") and finding.severity == "warning"


# -- shapes --------------------------------------------------------------------------------------------------------------------


def works(op: Callable[..., Any], *shapes: tuple[int, ...]) -> bool:
    try:
        op(*(numpy.zeros(s, "float32") for s in shapes))
    except ValueError:
        return False
    return True


def test_shapes_clash_exactly_where_numpy_refuses_them_and_what_is_offered_works() -> None:
    rng = numpy.random.default_rng(0)
    clashes = fixes = 0
    for _ in range(600):
        a, b = (tuple(int(n) for n in rng.choice([1, 2, 3, 4], size=rng.integers(1, 4))) for _ in range(2))
        for op, ufunc, elementwise in (("matmul", numpy.matmul, False), ("add", numpy.add, True)):
            found = shapes.clash(op, [a, b], elementwise)
            assert (found is None) == works(ufunc, a, b), (op, a, b)
            if found is None:
                continue
            clashes += 1
            code = shapes.fix(op, [a, b], ["a", "b"], elementwise, {})
            if code:
                fixes += 1
                changed = {"a": engine.ones(*a), "b": engine.ones(*b)}
                changed[code[0]] = eval(code, {}, changed)
                assert works(ufunc, tuple(changed["a"].shape), tuple(changed["b"].shape)), (op, a, b, code)
    assert clashes > 200 and fixes > clashes / 4


@pytest.mark.parametrize(
    ("program", "marked", "fix"),
    [
        (lambda: engine.ones(5, 8) @ engine.ones(3, 8), [[1], [0]], ".T"),
        (lambda: engine.ones(4, 3) + engine.ones(4), [[1], [0]], ".unsqueeze(-1)"),
        (lambda: nn.Conv2d(3, 2, 3)(engine.ones(1, 8, 8, 3)), [[1], [1], []], ".movedim(-1, 1)"),
        (lambda: nn.Linear(64, 10)(engine.ones(2, 4, 4, 4)), [[3], [1], []], ".flatten(1)"),
        (lambda: engine.cat([engine.ones(2, 3), engine.ones(2, 4)]), [[1], [1]], "print the shapes"),
        (lambda: F.binary_cross_entropy_with_logits(engine.ones(4, 1), engine.ones(4)), [[0, 1], [0]], ".unsqueeze(-1)"),
        (lambda: engine.ones(4, 3).reshape(5, 3), [[0, 1]], "reshape"),
    ],
)
def test_axes_that_do_not_fit_are_marked_and_a_view_that_fits_is_offered(program: Program, marked: list, fix: str) -> None:
    finding = one(checked(program), "shape-mismatch")
    assert [operand.marked for operand in finding.operands] == marked
    assert fix in finding.fix


def test_operands_that_do_not_fit_are_flagged_in_the_graph() -> None:
    report = checked(lambda: engine.ones(5, 8).exp() @ engine.ones(3, 8).exp())
    row = one(report, "shape-mismatch").node
    told = [(flag.glyph, flag.words) for flag in flags(report.findings, row)]
    assert told == [("≠", "axis 1 (size 8) of exp #1 does not fit"), ("≠", "axis 0 (size 3) of exp #3 does not fit")]


def test_a_transpose_too_many_is_taken_back() -> None:
    w, h = engine.ones(8, 3), engine.ones(5, 8)
    finding = one(checked(lambda: h @ w.T), "shape-mismatch")
    assert finding.fix.endswith(", without the transpose")


def test_operands_on_different_devices_are_told() -> None:
    """The recorder hears of a refusal as it would from a machine with a GPU."""
    recorder = Recorder()
    x, w = engine.ones(2, 3), engine.ones(3, 2)
    with observe.observing(recorder):
        recorder.begins()
        said = "matmul: Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0!"
        recorder.failed(engine.matmul.op, (x, w), {}, RuntimeError(said))
    finding = next(iter(look(recorder.stop())))
    assert (
        finding.code == "device-mismatch" and "model.to(device)" in finding.fix and [o.shape for o in finding.operands] == [[2, 3], [3, 2]]
    )


# -- no false alarms -----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs.steps)
def test_correct_programs_of_views_and_writes_are_left_in_peace(program: list) -> None:
    rng = numpy.random.default_rng(2)
    x, w = (engine.tensor(rng.normal(size=shape), requires_grad=True) for shape in (programs.SHAPE, (3,)))

    def run() -> Any:
        pool = programs.run(
            program, x, w, lambda v: v.clone(), lambda shape: engine.zeros(shape, dtype=engine.float64), programs.write_tensor
        )
        loss = engine.stack([v.square().mean() for v in pool]).sum()
        loss.backward()
        return pool, loss

    assert [finding.code for finding in checked(run).findings] == []


@pytest.mark.parametrize("program", walked.PROGRAMS)
def test_programs_that_are_walked_through_are_left_in_peace(program: Any) -> None:
    leaves, run = program()

    def pass_of() -> Any:
        loss = run()
        loss.backward()
        return leaves, loss

    assert [finding.code for finding in checked(pass_of).findings] == []


@pytest.mark.parametrize("model", ["mlp", "bn", "conv", "lstm", "attention", "embedding", "gan", "accumulate", "by hand", "lbfgs"])
def test_usual_trainings_are_left_in_peace(model: str) -> None:
    assert [(one.code, one.sentence) for one in checked(USUAL[model]).findings] == []


def fitted(model: nn.Module, data: Any, loss_of: Any = F.cross_entropy, lr: float = 1e-2, steps: int = 5) -> Any:
    return train(model, Adam(model.parameters(), lr), steps=steps, loss_of=loss_of, data=data)


def images() -> tuple[Any, Any]:
    return engine.randn(8, 1, 8, 8), engine.randint(0, 3, (8,))


class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.rnn(x)[0][:, -1])


def gan() -> Any:
    g, d = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    of_g, of_d = Adam(g.parameters(), 1e-3), Adam(d.parameters(), 1e-3)
    for _ in range(5):
        fake = g(engine.randn(8, 2))
        of_d.zero_grad()
        real, made = d(engine.randn(8, 4)), d(fake.detach())
        loss = F.binary_cross_entropy_with_logits(real, engine.ones(8, 1)) + F.binary_cross_entropy_with_logits(made, engine.zeros(8, 1))
        loss.backward()
        of_d.step()
        of_g.zero_grad()
        F.binary_cross_entropy_with_logits(d(fake), engine.ones(8, 1)).backward()
        of_g.step()
    return g, d, of_g, of_d


def accumulate() -> Any:
    model = Net()
    optimizer = SGD(model.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(4):
            x, y = batch()
            (F.cross_entropy(model(x), y) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model, optimizer


def with_lbfgs() -> Any:
    model, (x, y) = nn.Linear(4, 1), (engine.randn(8, 4), engine.randn(8, 1))
    optimizer = engine.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return model, optimizer


USUAL: dict[str, Program] = {
    "mlp": lambda: fitted(Net(), batch),
    "bn": lambda: evaluated(True) and fitted(Net(drop=nn.BatchNorm1d(8)), batch),
    "conv": lambda: fitted(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)), images
    ),
    "lstm": lambda: fitted(Last(), lambda: (engine.randn(8, 5, 4), engine.randint(0, 3, (8,)))),
    "attention": lambda: fitted(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: (engine.randn(2, 5, 8), engine.randn(2, 5, 8)), F.mse_loss, 1e-3
    ),
    "embedding": lambda: fitted(
        nn.Sequential(nn.Embedding(10, 6), nn.Flatten(), nn.Linear(18, 3)),
        lambda: (engine.randint(0, 10, (8, 3)), engine.randint(0, 3, (8,))),
    ),
    "gan": gan,
    "accumulate": accumulate,
    "by hand": lambda: by_hand(True),
    "lbfgs": with_lbfgs,
}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_lessons_are_left_in_peace(lesson: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of a lesson that show a mistake have the tag "mistake"."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"wb": wb, "__name__": "lesson"}
    for cell in json.loads(lesson.read_text(encoding="utf-8"))["cells"]:
        text = "".join(line for line in cell["source"] if not line.startswith("%"))
        if cell["cell_type"] != "code" or not text.strip():
            continue
        with wb.record() as recorded:
            exec(compile(text, lesson.name, "exec"), names)
        if "mistake" not in cell["metadata"].get("tags", []):
            assert [(one.code, one.sentence) for one in look(recorded.recording, recorded.graph.optimizers, thorough=True)] == []


# -- the guard -----------------------------------------------------------------------------------------------------------------


def test_the_guard_stops_at_the_very_op_with_its_operands() -> None:
    x = engine.tensor([4.0, -1.0], requires_grad=True)
    with (
        pytest.raises(
            FloatingPointError, match=r"log made NaN.*result\[1\]; input is \(2,\) float32, values 4, −1, input\[1\] = −1\."
        ) as raised,
        wb.guard(),
    ):
        y = x * 1
        y.log().sum()
        raise AssertionError("it went on")
    assert isinstance(raised.value, RuntimeError)  # what PyTorch's detect_anomaly raises
    assert observe.current is None


def test_the_guard_stops_backward_at_the_rule() -> None:
    x = engine.tensor([4.0, 0.0], requires_grad=True)
    with wb.guard():
        loss = x.sqrt().sum()
        with pytest.raises(
            FloatingPointError,
            match=r"backward step of sqrt made \+Inf.*gradient of input\[1\], by its rule d_input = .*upstream gradient g is \(2,\)",
        ):
            loss.backward()


def test_the_guard_looks_for_what_it_is_told_to_and_lets_masks_be() -> None:
    big = engine.tensor([1000.0])
    with wb.guard(inf=False):
        big.exp()
    with wb.guard(nan=False):
        (-big).log()
    with pytest.raises(FloatingPointError, match=r"exp made \+Inf"), wb.guard():
        big.exp()
    with wb.guard():
        masked = engine.zeros(2, 2).masked_fill(engine.tensor([[False, True], [False, False]]), float("-inf"))
        assert masked.softmax(-1).tolist() == [[1.0, 0.0], [0.5, 0.5]]
        (masked + 1.0).exp()
    with pytest.raises(FloatingPointError, match="hands on"), wb.guard():
        engine.tensor([float("nan")]).mul(2)
    with pytest.raises(FloatingPointError, match="sqrt"), wb.guard():
        engine.tensor([-1.0]).sqrt_()


def test_the_guard_names_the_line_of_the_user_and_in_backward_that_of_the_op() -> None:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    x = engine.tensor([4.0, 0.0], requires_grad=True)
    with wb.guard():
        root = x.sqrt()  # the op
        loss = root.sum()
        with pytest.raises(FloatingPointError) as backward:
            loss.backward()
        with pytest.raises(FloatingPointError) as forward:
            (x - 1).log()  # the forward op
    number = next(at for at, text in enumerate(lines, 1) if text.endswith("# the op"))
    assert f"sqrt made +Inf (test_checks.py, line {number})" in str(backward.value)
    number = next(at for at, text in enumerate(lines, 1) if text.endswith("# the forward op"))
    assert f"log made NaN (test_checks.py, line {number})" in str(forward.value)


def test_the_guard_tells_a_recording_on() -> None:
    with wb.record() as r, wb.guard():
        x = engine.ones(3, requires_grad=True)
        (x * 2).sum().backward()
    ops = [r.recording.op_name(row) for row in range(r.recording.count)]
    assert ops.count("mul") == 1 and ops.count("sum") == 1 and len(r.recording.steps) == 3


# -- structure in CI -----------------------------------------------------------------------------------------------------------

MLP = """
import engine, workbench as wb
from engine import nn
engine.manual_seed({seed})
{name} = nn.Sequential(nn.Linear(4, {wide}), nn.{act}(), nn.Linear({wide}, 3))
with wb.record():
    {loss} = {name}(engine.randn(5, 4)).square().mean()
print(wb.fingerprint({loss}))
"""


def hex_of(seed: int = 0, name: str = "model", wide: int = 8, act: str = "Tanh", loss: str = "loss") -> str:
    code = MLP.format(seed=seed, name=name, wide=wide, act=act, loss=loss)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_a_fingerprint_is_of_the_structure_alone_and_the_same_in_every_process() -> None:
    first = hex_of()
    assert len(first) == 16 and int(first, 16) >= 0
    assert hex_of(seed=5, name="net", loss="error") == first
    assert len({first, hex_of(wide=9), hex_of(act="ReLU")}) == 3


def small(op: str = "tanh", dim: int = 1, dtype: Any = None, swap: bool = False) -> Any:
    a, b = engine.ones(2, 3, dtype=dtype, requires_grad=True), engine.ones(2, 3, dtype=dtype, requires_grad=True)
    h = getattr(a - b if not swap else b - a, op)()
    return h.sum(dim).mean()


def test_what_is_part_of_the_structure_changes_the_fingerprint() -> None:
    same = [wb.fingerprint(small()) for _ in range(2)]
    others = [small("sigmoid"), small(dim=0), small(dtype=engine.float64), small(swap=True)]
    assert same[0] == same[1] and len({same[0], *map(wb.fingerprint, others)}) == 5
    loss = small()
    before = wb.fingerprint(loss)
    loss.backward()
    assert wb.fingerprint(loss) == before
    with pytest.raises(RuntimeError, match="no graph"):
        wb.fingerprint(engine.ones(2))


def test_a_graph_that_is_another_one_is_told_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "graphs" / "small.json"
    with pytest.raises(AssertionError, match=r"does not exist.*WB_UPDATE=1"):
        wb.assert_unchanged(small(), str(file))
    wb.assert_unchanged(small(), str(file), update=True)
    wb.assert_unchanged(small(), str(file))
    assert json.loads(file.read_text())["fingerprint"] == wb.fingerprint(small())
    with pytest.raises(AssertionError) as raised:
        wb.assert_unchanged(small("sigmoid"), str(file))
    told = str(raised.value).splitlines()
    assert "-tanh float32 2×3 ← sub 2×3" in told and "+sigmoid float32 2×3 ← sub 2×3" in told
    with pytest.raises(AssertionError, match=r"-#2 sub .* ← #0, #1"):  # nothing but the wiring differs
        wb.assert_unchanged(small(swap=True), str(file))
    with wb.record():  # modules are known of one and not of the other: the rest is compared
        recorded = small()
    wb.assert_unchanged(recorded, str(file))
    monkeypatch.setenv("WB_UPDATE", "1")
    wb.assert_unchanged(small("sigmoid"), str(file))
    monkeypatch.delenv("WB_UPDATE")
    wb.assert_unchanged(small("sigmoid"), str(file))


def test_the_documentation_runs_and_lists_every_code(
    capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WB_UPDATE", "1")
    text = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "docs"}
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(program, "checks.md", "exec"), names)
    printed = capsys.readouterr().out
    for line in re.findall(r"^ERROR .*", text, re.MULTILINE):
        assert line in printed.splitlines()
    used = set(
        re.findall(r'finding\(\s*f?"([a-z0-9{}_\[\]-]+)"', "".join(p.read_text() for p in (ROOT / "workbench" / "checks").glob("*.py")))
    )
    listed = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", text)) | {"saturated"}
    assert {code for code in used if "{" not in code} <= listed and len(used) > 25
    assert {code for code, _, _ in TWINS} <= listed


# -- in a session --------------------------------------------------------------------------------------------------------------


def test_findings_reach_every_view_with_flags_and_a_thorough_look_is_answered() -> None:
    recorder = Recorder("In [1]")
    with observe.observing(recorder):
        held = not_finite(lambda x: x.log().sum(), -1.0)()
    recorder.stop()
    session = Session(recorder.recording)
    session.finish({})
    told: list[dict] = []
    client = session.connect(lambda message, buffers: told.append(message))
    session.check()
    kinds = [message["type"] for message in told]
    assert kinds == ["flags", "findings"] and told[0]["flags"][0]["glyph"] == "✕" and not told[1]["thorough"]
    assert [one["code"] for one in told[1]["findings"]] == ["nan-forward"]
    ((answer, _),) = session.handle({"type": "ask_findings", "v": protocol.VERSION, "id": 4}, client)
    assert answer["re"] == 4 and answer["thorough"] and [one["code"] for one in answer["findings"]] == ["nan-forward"]
    assert [m["type"] for m, _ in session.everything(client)].count("findings") == 1
    session.busy = lambda: True
    ((problem, _),) = session.handle({"type": "ask_findings", "v": protocol.VERSION, "id": 5}, client)
    assert problem["type"] == "problem" and "running" in problem["sentence"]
    del held


def test_a_check_that_fails_says_so_and_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Any) -> list:
        raise KeyError("<b>x</b>")

    monkeypatch.setattr("workbench.checks.losses.check", broken)
    report = checked(lambda: plain(zero=False))
    assert one(report, "check-failed").sentence == "A check could not be done: KeyError: '<b>x</b>'."
    assert one(report, "missing-zero-grad").severity == "error"


def test_nothing_recorded_is_said_and_no_tensor_is_kept_alive() -> None:
    report = checked(plain)
    assert "nothing found" in repr(report)
    with wb.record() as r:
        model, optimizer, _ = plain()
        weak = [ref(p) for p in model.parameters()]
        del model, optimizer
    look(r.recording, (), thorough=True)
    gc.collect()
    assert all(one() is None for one in weak)
