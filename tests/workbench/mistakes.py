"""Programs with a mistake and their corrected twins, and what the checks say of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import engine
import engine.data
import engine.nn.functional as F
import workbench as wb
from engine import nn
from engine.optim import SGD, Adam

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
    ("dead-units", lambda: killed(True), lambda: killed(False)),
    ("dead-units", lambda: killed(True), lambda: killed(False)),
    ("learning-rate-too-large", lambda: regressed(100.0), lambda: regressed(0.1)),
    ("softmax-axis", lambda: attended(0), lambda: attended(-1)),
    ("softmax-axis", lambda: attended(1), lambda: attended(2)),
    ("softmax-axis", scores(lambda s, y: F.nll_loss(s.log_softmax(0), y)), scores(lambda s, y: F.nll_loss(s.log_softmax(1), y))),
    ("loss-without-item", lambda: collected(False), lambda: collected(True)),
    ("nan-forward", lambda: fully_masked(False), lambda: fully_masked(True)),
    ("nan-input", not_finite(lambda x: (x * 2).sum(), float("nan")), not_finite(lambda x: (x * 2).sum(), 3.0)),
]  # fmt: skip
