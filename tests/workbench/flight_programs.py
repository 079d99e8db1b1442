"""Small training programs of many kinds, for the engine (E is `engine`) and for PyTorch (E is `torch`).

Each one is called with E and the path of a file, trains in a `wb.flight` block, and returns what the block gives. With `saw` it copies its
losses, gradients and parameters at the end of each step by itself, so that a repetition can be compared without the recorder's checksums.
"""

from __future__ import annotations

import itertools
import random
import weakref
from collections import UserDict, UserList, deque, namedtuple
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy

import workbench as wb

KINDS: dict[str, Callable[[Any, str], Any]] = {}
SEEN: UserList[list[bytes]] = UserList()  # what each step copied; the items of a list would be as before after a repetition


def kind(program: Callable) -> Callable:
    KINDS[program.__name__] = program
    return program


def saw(loss: Any, *models: Any) -> None:
    """Copy the loss, and the parameters and gradients of models; or tensors and their gradients."""
    parts = [loss]
    for model in models:
        for p in model.parameters() if hasattr(model, "parameters") else [model]:
            parts += [p, p.grad]
    SEEN.append([b"" if x is None else _dense(x.detach()).numpy().tobytes() for x in parts])


def _dense(x: Any) -> Any:
    return x.to_dense() if x.is_sparse else x


def rows(E: Any, n: int = 24, width: int = 4) -> tuple[Any, Any]:
    chance = numpy.random.default_rng(3)
    x = chance.normal(size=(n, width)).astype(numpy.float32)
    return E.tensor(x), E.tensor((x.sum(1, keepdims=True) > 0).astype(numpy.float32))


def loader(E: Any, *tensors: Any, **options: Any) -> Any:
    return E.utils.data.DataLoader(E.utils.data.TensorDataset(*(tensors or rows(E))), **{"batch_size": 4, "shuffle": True} | options)


def net(E: Any, *inner: Any, outputs: int = 1) -> Any:
    return E.nn.Sequential(E.nn.Linear(4, 8), E.nn.Tanh(), *inner, E.nn.Linear(8, outputs))


def error(E: Any, model: Any, x: Any, y: Any) -> Any:
    return E.nn.functional.mse_loss(model(x), y)


def step(loss: Any, optimizer: Any, *models: Any) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    saw(loss, *models)


# -- optimizers ----------------------------------------------------------------------------------------------------------------


def with_optimizer(E: Any, path: str, name: str, **options: Any) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = getattr(E.optim, name)(model.parameters(), **options)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(2):
            for x, y in loader(E):
                step(error(E, model, x, y), optimizer, model)
    return flight


for _name, _options in {
    "SGD": {"lr": 0.1}, "Adam": {"lr": 0.01}, "AdamW": {"lr": 0.01, "amsgrad": True}, "RMSprop": {"lr": 0.01, "centered": True, "momentum": 0.5},
    "Adagrad": {"lr": 0.1}, "Adadelta": {}, "NAdam": {}, "Rprop": {},
}.items():  # fmt: skip
    KINDS[_name] = partial(with_optimizer, name=_name, **_options)
KINDS["momentum"] = partial(with_optimizer, name="SGD", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)


@kind
def lbfgs(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=3)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):

            def closure(x=x, y=y):
                optimizer.zero_grad()
                loss = error(E, model, x, y)
                loss.backward()
                return loss

            saw(optimizer.step(closure), model)
    return flight


@kind
def groups_with_rates_by_hand(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD([{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}], lr=0.01, momentum=0.9)
    with wb.flight(model, optimizer, path=path) as flight:
        for i, (x, y) in enumerate(loader(E)):
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
            if i == 3:
                optimizer.param_groups[0]["momentum"] = 0.5
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def gradients_stay_zero(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.Adam(model.parameters(), lr=0.01)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            loss = error(E, model, x, y)
            loss.backward()
            optimizer.step()
            saw(loss, model)
            optimizer.zero_grad(set_to_none=False)
    return flight


@kind
def step_before_backward(E: Any, path: str) -> Any:
    """Each step begins with the gradients of the one before it."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            E.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def accumulation(E: Any, path: str) -> Any:
    """Micro-batches, and the last optimizer step after the loop."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(2):
            for i, (x, y) in enumerate(loader(E, batch_size=3)):
                loss = error(E, model, x, y) / 3
                loss.backward()
                saw(loss, model)
                if i % 3 == 2:
                    optimizer.step()
                    optimizer.zero_grad()
            optimizer.step()
            optimizer.zero_grad()
    return flight


@kind
def clipping(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.5)
    norms = []
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            loss = error(E, model, x, y)
            optimizer.zero_grad()
            loss.backward()
            norms.append(float(E.nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
            E.nn.utils.clip_grad_value_(model.parameters(), 0.05)
            optimizer.step()
            saw(loss, model)
    return flight


class Momentum:
    """An optimizer of the user's own: an object with a list of parameters."""

    def __init__(self, parameters: Any, E: Any) -> None:
        self.parameters, self.E, self.turns = list(parameters), E, 0
        self.speed = [E.zeros_like(p) for p in self.parameters]

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    def step(self) -> None:
        self.turns += 1
        with self.E.no_grad():
            for i, p in enumerate(self.parameters):
                self.speed[i] = 0.9 * self.speed[i] + p.grad
                p -= 0.1 / self.turns * self.speed[i]


@kind
def own_optimizer(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = Momentum(model.parameters(), E)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            step(error(E, model, x, y), optimizer, model)
    assert optimizer.parameters[0] is model[0].weight
    return flight


# -- rates ---------------------------------------------------------------------------------------------------------------------


def with_scheduler(E: Any, path: str, make: Callable, per_epoch: bool = False, on_plateau: bool = False) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = make(E.optim.lr_scheduler, optimizer)
    with wb.flight(model, optimizer, path=path) as flight:
        for _epoch in range(4):
            for x, y in loader(E, batch_size=10):
                step(error(E, model, x, y), optimizer, model)
                if not per_epoch:
                    scheduler.step()
            if on_plateau:
                scheduler.step(float(error(E, model, *rows(E)).detach()))
            elif per_epoch:
                scheduler.step()
    return flight


KINDS["one_cycle"] = partial(with_scheduler, make=lambda s, o: s.OneCycleLR(o, 0.2, total_steps=13))
KINDS["cosine"] = partial(with_scheduler, make=lambda s, o: s.CosineAnnealingLR(o, 4), per_epoch=True)
KINDS["warm_restarts"] = partial(with_scheduler, make=lambda s, o: s.CosineAnnealingWarmRestarts(o, 3))
KINDS["plateau"] = partial(
    with_scheduler, make=lambda s, o: s.ReduceLROnPlateau(o, patience=0, threshold=0.9), per_epoch=True, on_plateau=True
)
KINDS["lambda_rate"] = partial(with_scheduler, make=lambda s, o: s.LambdaLR(o, lambda n: 0.8**n))
KINDS["sequence_of_rates"] = partial(
    with_scheduler, make=lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)], [4])
)


# -- chance --------------------------------------------------------------------------------------------------------------------


@kind
def dropout(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.5))
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            step(error(E, model, x, y), optimizer, model)
    return flight


class Flipped:
    """A dataset with random flips, by three libraries' random numbers."""

    def __init__(self, E: Any) -> None:
        self.E, (self.x, self.y) = E, rows(E, 18)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        x = self.x[i]
        if random.random() < 0.5:
            x = x.flip(0)
        if numpy.random.random() < 0.5:
            x = -x
        return x + self.E.rand(4), self.y[i]


def augmented(E: Any, path: str, workers: int) -> Any:
    E.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    data = E.utils.data.DataLoader(Flipped(E), batch_size=3, shuffle=True, num_workers=workers)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in data:
            step(error(E, model, x, y), optimizer, model)
    return flight


KINDS["augmentation"] = partial(augmented, workers=0)
KINDS["augmentation_in_workers"] = partial(augmented, workers=2)


@kind
def shuffle_with_a_generator(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    generator = E.Generator()
    generator.manual_seed(7)
    noise = numpy.random.default_rng(8)
    coin = random.Random(9)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E, generator=generator):
            x = x + E.tensor(noise.normal(size=(4,)).astype(numpy.float32)) * coin.choice([0.1, 0.2])
            x = x + E.rand(4, generator=generator)
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def mixup(E: Any, path: str) -> Any:
    E.manual_seed(0)
    numpy.random.seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            share, order = float(numpy.random.beta(0.4, 0.4)), E.randperm(len(x))
            step(error(E, model, share * x + (1 - share) * x[order], share * y + (1 - share) * y[order]), optimizer, model)
    return flight


@kind
def autoencoder_with_noise(E: Any, path: str) -> Any:
    """VAE: the latent values are reparameterized."""
    E.manual_seed(0)
    encoder, decoder = E.nn.Linear(4, 4), E.nn.Linear(2, 4)
    optimizer = E.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    with wb.flight(encoder, decoder, optimizer, path=path) as flight:
        for (x,) in loader(E, rows(E)[0]):
            mean, log_variance = encoder(x).chunk(2, 1)
            z = mean + E.randn_like(mean) * (0.5 * log_variance).exp()
            loss = (decoder(z) - x).square().sum() - 0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
            step(loss, optimizer, encoder, decoder)
    return flight


@kind
def diffusion(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = E.nn.Sequential(E.nn.Linear(5, 8), E.nn.SiLU(), E.nn.Linear(8, 4))
    optimizer = E.optim.AdamW(model.parameters(), lr=0.01)
    kept = E.cumprod(1 - E.linspace(0.01, 0.3, 10), 0)
    with wb.flight(model, optimizer, path=path) as flight:
        for (x,) in loader(E, rows(E)[0]):
            t = E.randint(0, 10, (len(x),))
            noise = E.randn_like(x)
            a = kept[t].unsqueeze(1)
            noisy = a.sqrt() * x + (1 - a).sqrt() * noise
            loss = (model(E.cat([noisy, t.unsqueeze(1) / 10], 1)) - noise).square().mean()
            step(loss, optimizer, model)
    return flight


# -- models --------------------------------------------------------------------------------------------------------------------


@kind
def batch_norm(E: Any, path: str) -> Any:
    """Validation within a step and after each epoch."""
    E.manual_seed(0)
    model = net(E, E.nn.BatchNorm1d(8), E.nn.Dropout(0.2))
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    best = float("inf")

    def validated() -> float:
        model.eval()
        with E.no_grad():
            total = sum(float(error(E, model, x, y)) for x, y in loader(E, shuffle=False))
        model.train()
        return total

    with wb.flight(model, optimizer, path=path) as flight:
        for _epoch in range(3):
            for i, (x, y) in enumerate(loader(E, batch_size=8)):
                step(error(E, model, x, y), optimizer, model)
                if i == 1:
                    best = min(best, validated())
            best = min(best, validated())
    return flight


@kind
def recurrent_with_a_carried_state(E: Any, path: str) -> Any:
    """Truncated backpropagation through time."""
    E.manual_seed(0)
    cell, head = E.nn.GRUCell(4, 8), E.nn.Linear(8, 1)
    optimizer = E.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
    x, y = rows(E)
    hidden = E.zeros(2, 8)
    with wb.flight(cell, head, optimizer, path=path) as flight:
        for start in flight(range(0, 24, 4)):
            hidden = hidden.detach()
            loss = 0
            for t in range(start, start + 4, 2):
                hidden = cell(x[t : t + 2], hidden)
                loss = loss + E.nn.functional.mse_loss(head(hidden), y[t : t + 2])
            step(loss, optimizer, cell, head)
    return flight


@kind
def attributes_of_modules(E: Any, path: str) -> Any:
    """A module with a state that is no buffer, and one whose settings change after each epoch."""
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.5))
    model[0].carried, model[0].turns = E.zeros(8), 0
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(3):
            for x, y in loader(E, batch_size=8):
                model[0].turns += 1
                out = model[0](x) + model[0].carried / model[0].turns
                model[0].carried = out.mean(0).detach()
                step(E.nn.functional.mse_loss(model[1:](out), y), optimizer, model)
            model[2].p *= 0.7
    return flight


def embedding(E: Any, path: str, sparse: bool) -> Any:
    E.manual_seed(0)
    model = E.nn.Sequential(E.nn.Embedding(10, 4, sparse=sparse), E.nn.Linear(4, 1))
    table, head = E.optim.SGD(model[0].parameters(), lr=0.1), E.optim.SGD(model[1].parameters(), lr=0.1)
    with wb.flight(model, table, head, path=path) as flight:
        for _ in flight(range(6)):
            loss = model(E.randint(0, 10, (5,))).square().mean()
            table.zero_grad()
            step(loss, head, model)
            table.step()
    return flight


KINDS["embedding"] = partial(embedding, sparse=False)
KINDS["sparse_gradients"] = partial(embedding, sparse=True)


@kind
def sparse_adam(E: Any, path: str) -> Any:
    """Sparse gradients that are there when a step begins."""
    E.manual_seed(0)
    model = E.nn.Embedding(10, 4, sparse=True)
    optimizer = E.optim.SparseAdam(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for i in flight(range(7)):
            loss = model(E.randint(0, 10, (5,))).square().mean()
            loss.backward()
            saw(loss, model)
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
    return flight


@kind
def tied_weights(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = E.nn.ModuleDict({"read": E.nn.Embedding(10, 4), "write": E.nn.Linear(4, 10, bias=False)})
    model["write"].weight = model["read"].weight
    optimizer = E.optim.Adam(model.parameters(), lr=0.01)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in flight(range(6)):
            words = E.randint(0, 10, (6,))
            loss = E.nn.functional.cross_entropy(model["write"](model["read"](words[:-1])), words[1:], label_smoothing=0.1)
            step(loss, optimizer, model)
    return flight


@kind
def unfrozen_later(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    model[0].requires_grad_(False)
    optimizer = E.optim.Adam(model.parameters(), lr=0.01)
    with wb.flight(model, optimizer, path=path) as flight:
        for i, (x, y) in enumerate(loader(E)):
            if i == 2:
                model[0].requires_grad_(True)
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def group_added_later(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9)
    with wb.flight(model, optimizer, path=path) as flight:
        for epoch in range(3):
            if epoch == 1:
                optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.02})
            for x, y in loader(E, batch_size=8):
                step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def weight_norm(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    E.nn.utils.parametrizations.weight_norm(model[0])
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def spectral_norm(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    E.nn.utils.parametrizations.spectral_norm(model[0])
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def lazy_module(E: Any, path: str) -> Any:
    """Its first forward pass is inside the block."""
    E.manual_seed(0)
    model = E.nn.Sequential(E.nn.LazyLinear(8), E.nn.ReLU(), E.nn.LazyLinear(1))
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def checkpointed(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.3))
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            out = E.utils.checkpoint.checkpoint(model[:3], x, use_reentrant=False)
            step(E.nn.functional.mse_loss(model[3](out), y), optimizer, model)
    return flight


def functional(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    weights = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    optimizer = E.optim.SGD(weights.values(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            step(E.nn.functional.mse_loss(E.func.functional_call(model, weights, (x,)), y), optimizer, *weights.values())
    return flight


KINDS["functional_call"] = functional


# -- losses --------------------------------------------------------------------------------------------------------------------


@kind
def robust_losses(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            gap = y - model(x)
            loss = E.maximum(0.9 * gap, -0.1 * gap).mean() + E.nn.HuberLoss(delta=0.3)(model(x), y)
            step(loss, optimizer, model)
    return flight


@kind
def contrastive(E: Any, path: str) -> Any:
    """Two views of each example."""
    E.manual_seed(0)
    model = net(E, outputs=3)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for (x,) in loader(E, rows(E)[0]):
            a, b = (E.nn.functional.normalize(model(x + 0.1 * E.randn_like(x)), dim=1) for _ in range(2))
            step(E.nn.functional.cross_entropy(a @ b.T / 0.5, E.arange(len(x))), optimizer, model)
    return flight


@kind
def distillation(E: Any, path: str) -> Any:
    E.manual_seed(0)
    teacher, student = net(E, outputs=3).eval().requires_grad_(False), net(E, outputs=3)
    optimizer = E.optim.SGD(student.parameters(), lr=0.1)
    with wb.flight(student, teacher, optimizer, path=path) as flight:
        for (x,) in loader(E, rows(E)[0]):
            with E.no_grad():
                target = E.nn.functional.softmax(teacher(x) / 2, 1)
            loss = E.nn.functional.kl_div(E.nn.functional.log_softmax(student(x) / 2, 1), target, reduction="batchmean")
            step(loss, optimizer, student)
    return flight


@kind
def gradient_penalty(E: Any, path: str) -> Any:
    """Double backward."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            x = x.clone().requires_grad_()
            out = model(x)
            (slope,) = E.autograd.grad(out.sum(), x, create_graph=True)
            step(E.nn.functional.mse_loss(out, y) + 0.1 * (slope.norm(dim=1) - 1).square().mean(), optimizer, model)
    return flight


@kind
def meta_learning(E: Any, path: str) -> Any:
    """No call of backward() and no optimizer."""
    E.manual_seed(0)
    model = net(E)
    with wb.flight(model, path=path) as flight:
        for x, y in loader(E):
            weights = dict(model.named_parameters())
            inner = E.autograd.grad(error(E, model, x, y), list(weights.values()), create_graph=True)
            fast = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), inner, strict=True)}
            loss = E.nn.functional.mse_loss(E.func.functional_call(model, fast, (x.flip(0),)), y.flip(0))
            with E.no_grad():
                for w, g in zip(weights.values(), E.autograd.grad(loss, list(weights.values())), strict=True):
                    w -= 0.1 * g
            saw(loss, model)
    return flight


# -- several models ------------------------------------------------------------------------------------------------------------


def adversarial(E: Any, path: str, clip: bool) -> Any:
    E.manual_seed(0)
    maker, critic = E.nn.Sequential(E.nn.Linear(2, 8), E.nn.ReLU(), E.nn.Linear(8, 4)), net(E)
    first, second = E.optim.RMSprop(maker.parameters(), lr=0.01), E.optim.RMSprop(critic.parameters(), lr=0.01)
    softplus = E.nn.functional.softplus
    with wb.flight(maker, critic, first, second, path=path) as flight:
        for (x,) in loader(E, rows(E)[0]):
            for _ in range(2):
                fake = maker(E.randn(len(x), 2)).detach()
                loss = critic(fake).mean() - critic(x).mean() if clip else (softplus(-critic(x)) + softplus(critic(fake))).mean()
                second.zero_grad()
                loss.backward()
                second.step()
                if clip:
                    with E.no_grad():
                        for p in critic.parameters():
                            p.clamp_(-0.1, 0.1)
            out = critic(maker(E.randn(len(x), 2)))
            step(-out.mean() if clip else softplus(-out).mean(), first, maker, critic)
    return flight


KINDS["gan"] = partial(adversarial, clip=False)
KINDS["wgan"] = partial(adversarial, clip=True)


class Average:
    """An exponential moving average of a model's parameters."""

    def __init__(self, model: Any, decay: float) -> None:
        self.decay, self.shadow = decay, {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: Any) -> None:
        for name, p in model.named_parameters():
            self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * p.detach()

    def state_dict(self) -> dict[str, Any]:
        return {"decay": self.decay, "shadow": self.shadow}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.decay, self.shadow = state["decay"], state["shadow"]


@kind
def moving_average(E: Any, path: str) -> Any:
    """The average is part of the loss, and found among the variables."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    average = Average(model, 0.9)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            pull = sum((p - average.shadow[name]).square().sum() for name, p in model.named_parameters())
            step(error(E, model, x, y) + 0.1 * pull, optimizer, model, *average.shadow.values())
            average.update(model)
    return flight


@kind
def averaged_model(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    average = E.optim.swa_utils.AveragedModel(model)
    with wb.flight(model, optimizer, average, path=path) as flight:
        for x, y in loader(E):
            step(error(E, model, x, y) + error(E, model, x, average(x).detach()), optimizer, model, average)
            average.update_parameters(model)
    return flight


@kind
def target_network(E: Any, path: str) -> Any:
    """BYOL: a second network follows the first."""
    E.manual_seed(0)
    online = net(E, outputs=3)
    target = deepcopy(online).requires_grad_(False)
    optimizer = E.optim.SGD(online.parameters(), lr=0.1)
    with wb.flight(online, target, optimizer, path=path) as flight:
        for (x,) in loader(E, rows(E)[0]):
            a, b = (x + 0.1 * E.randn_like(x) for _ in range(2))
            loss = 1 - E.nn.functional.cosine_similarity(online(a), target(b)).mean()
            step(loss, optimizer, online, target)
            with E.no_grad():
                for p, q in zip(online.parameters(), target.parameters(), strict=True):
                    q.mul_(0.9).add_(p, alpha=0.1)
    return flight


# -- reinforcement learning ----------------------------------------------------------------------------------------------------


class Corridor:
    """An environment: five places, the goal at the right end."""

    def __init__(self) -> None:
        self.place, self.walks = 2, 0

    def reset(self) -> list[float]:
        self.place, self.walks = random.randrange(4), self.walks + 1
        return self.seen()

    def seen(self) -> list[float]:
        return [1.0 * (self.place == i) for i in range(4)]

    def act(self, action: int) -> tuple[list[float], float, bool]:
        self.place = max(0, self.place + (1 if action else -1))
        return self.seen(), float(self.place == 4) - 0.01 * self.walks, self.place == 4


@kind
def reinforce(E: Any, path: str) -> Any:
    E.manual_seed(0)
    random.seed(0)
    policy, world = net(E, outputs=2), Corridor()
    optimizer = E.optim.Adam(policy.parameters(), lr=0.05)
    baseline = 0.0
    with wb.flight(policy, optimizer, world, path=path) as flight:
        for _ in flight(range(7)):
            seen, chances, rewards = world.reset(), [], []
            for _ in range(6):
                choice = E.distributions.Categorical(logits=policy(E.tensor(seen)))
                action = choice.sample()
                seen, reward, done = world.act(int(action))
                chances.append(choice.log_prob(action))
                rewards.append(reward)
                if done:
                    break
            gain = sum(rewards)
            step(-(gain - baseline) * E.stack(chances).sum(), optimizer, policy)
            baseline = 0.9 * baseline + 0.1 * gain
    return flight


@dataclass
class Turn:
    seen: list[float]
    action: int
    reward: float
    after: list[float]
    done: bool


@kind
def q_learning(E: Any, path: str) -> Any:
    """DQN: a replay buffer, and a target network that is copied now and then."""
    E.manual_seed(0)
    random.seed(0)
    model, target, world, buffer = net(E, outputs=2), net(E, outputs=2), Corridor(), deque(maxlen=12)
    target.load_state_dict(model.state_dict())
    optimizer = E.optim.Adam(model.parameters(), lr=0.05)
    seen, exploring = world.reset(), 1.0
    with wb.flight(model, optimizer, target, world, buffer, path=path) as flight:
        for turn in flight(range(14)):
            exploring *= 0.9
            action = random.randrange(2) if random.random() < exploring else int(model(E.tensor(seen)).argmax())
            after, reward, done = world.act(action)
            buffer.append(Turn(seen, action, reward, after, done))
            seen = world.reset() if done else after
            if len(buffer) < 4:
                continue
            states, actions, rewards, afters, ends = zip(*(vars(turn).values() for turn in random.sample(buffer, 4)), strict=True)
            with E.no_grad():
                best = E.tensor(rewards) + 0.9 * target(E.tensor(afters)).max(1).values * (1 - E.tensor(ends).float())
            value = model(E.tensor(states)).gather(1, E.tensor(actions).unsqueeze(1)).squeeze(1)
            step(E.nn.functional.smooth_l1_loss(value, best), optimizer, model, target)
            if turn % 4 == 0:
                target.load_state_dict(model.state_dict())
    return flight


# -- precision -----------------------------------------------------------------------------------------------------------------


@kind
def mixed_precision(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    scaler = E.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            optimizer.zero_grad()
            with E.autocast("cpu", dtype=E.bfloat16):
                loss = error(E, model, x, y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            saw(loss.float(), model)
    return flight


@kind
def half_and_double(E: Any, path: str) -> Any:
    """A model of bfloat16 with a master copy in float64."""
    E.manual_seed(0)
    model = net(E).to(E.bfloat16)
    master = [p.detach().double() for p in model.parameters()]
    optimizer = E.optim.SGD(master, lr=0.1, momentum=0.9)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            loss = error(E, model, x.to(E.bfloat16), y.to(E.bfloat16))
            model.zero_grad()
            loss.backward()
            for p, exact in zip(model.parameters(), master, strict=True):
                exact.grad = p.grad.double()
            optimizer.step()
            with E.no_grad():
                for p, exact in zip(model.parameters(), master, strict=True):
                    p.copy_(exact)
            saw(loss.float(), *master)
    return flight


# -- loops ---------------------------------------------------------------------------------------------------------------------


@kind
def raw_tensors(E: Any, path: str) -> Any:
    """No module: a loop over numbers, with batches by randint."""
    E.manual_seed(0)
    x, y = rows(E)
    a = E.randn(4, 8).requires_grad_()
    b = E.randn(8, 1).requires_grad_()
    optimizer = E.optim.SGD([a, b], lr=0.05)
    with wb.flight(optimizer, path=path) as flight:
        for _ in flight(range(8)):
            chosen = E.randint(0, len(x), (6,))
            loss = ((x[chosen] @ a).tanh() @ b - y[chosen]).square().mean()
            step(loss, optimizer, a, b)
    return flight


@kind
def raw_tensors_without_an_optimizer(E: Any, path: str) -> Any:
    """As in a first lesson: parameters in a list, changed by hand."""
    E.manual_seed(0)
    x, y = rows(E)
    weights = [E.randn(4, 8).requires_grad_(), E.randn(8, 1).requires_grad_()]
    losses = []
    with wb.flight(weights, path=path) as flight:
        for i in flight(range(8)):
            chosen = E.randint(0, len(x), (6,))
            loss = ((x[chosen] @ weights[0]).tanh() @ weights[1] - y[chosen]).square().mean()
            for w in weights:
                w.grad = None
            loss.backward()
            for w in weights:
                w.data += -(0.1 if i < 4 else 0.01) * w.grad
            losses.append(loss.item())
            saw(loss, *weights)
    return flight


@kind
def one_line(E: Any, path: str) -> Any:
    """The body is on the line of its loop, and counts in an outer function's variable."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    turns = 0

    def train() -> Any:
        nonlocal turns
        with wb.flight(model, optimizer, path=path) as flight:
            for i, (x, y) in enumerate(loader(E)): turns += 2; step(error(E, model, x, y) / turns * (1 + i), optimizer, model)  # fmt: skip  # noqa: E701, E702
        return flight

    return train()


class progress:
    """A bar, as tqdm's, in the user's own code."""

    def __init__(self, iterable: Any) -> None:
        self.iterable, self.done = iterable, 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable:
            yield item
            self.done += 1


@kind
def behind_a_progress_bar(E: Any, path: str) -> Any:
    """The rate depends on a counter of the function, which the bar's frame does not know."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    turns = 0
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(2):
            for i, (x, y) in enumerate(progress(loader(E))):
                turns += 1
                step(error(E, model, x, y) / turns * (1 + i), optimizer, model)
    return flight


@kind
def epochs_in_an_outer_function(E: Any, path: str) -> Any:
    """The loop is in a function of its own; what the outer one counts is read there."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    turns = 0

    def epoch() -> None:
        nonlocal turns
        for x, y in loader(E, batch_size=8):
            turns += 1
            step(error(E, model, x, y) * turns * factor, optimizer, model)

    with wb.flight(model, optimizer, path=path) as flight:
        for factor in (0.5, 0.2, 0.1):  # noqa: B007  read in epoch()
            epoch()
    return flight


turns_so_far = 0


@kind
def global_counter(E: Any, path: str) -> Any:
    global turns_so_far
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    turns_so_far = 0
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            turns_so_far += 1
            step(error(E, model, x, y) / turns_so_far, optimizer, model)
    return flight


@kind
def while_with_next(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    turns = 0
    with wb.flight(model, optimizer, path=path) as flight:
        batches = iter(loader(E, batch_size=8))
        while turns < 8:
            try:
                x, y = next(batches)
            except StopIteration:
                batches = iter(loader(E, batch_size=8))
                x, y = next(batches)
            turns += 1
            step(error(E, model, x, y) / turns, optimizer, model)
    return flight


@kind
def break_and_again(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for epoch in range(3):
            for i, (x, y) in enumerate(loader(E)):
                step(error(E, model, x, y), optimizer, model)
                if i == epoch + 1:
                    break
            with E.no_grad():  # between the steps
                model[0].weight.mul_(0.9)
    return flight


@kind
def cycle(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in flight(itertools.islice(itertools.cycle(loader(E, batch_size=8)), 8)):
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def two_loaders_at_once(E: Any, path: str) -> Any:
    """Semi-supervised: zip over two loaders, and a third that is asked within the step."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for (x, y), (more,) in zip(loader(E), loader(E, rows(E)[0]), strict=True):
            (third,) = next(iter(loader(E, rows(E)[0])))
            step(error(E, model, x, y) + (model(more) - model(third)).square().mean(), optimizer, model)
    return flight


# -- loops that fetch ahead of what they train on ------------------------------------------------------------------------------


@kind
def one_batch_ahead(E: Any, path: str) -> Any:
    """As accelerate's loaders, which look whether there is another batch before they give one."""
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.3))
    optimizer = E.optim.Adam(model.parameters(), lr=0.05)

    def ahead(batches: Any) -> Any:
        each = iter(batches)
        now = next(each)
        for after in each:
            yield now
            now = after
        yield now

    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(3):
            for x, y in ahead(loader(E)):
                step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def prefetcher(E: Any, path: str) -> Any:
    """As programs for GPUs do it, which copy a batch while they train on the one before it."""
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.3))
    optimizer = E.optim.Adam(model.parameters(), lr=0.05)

    class Prefetcher:
        def __init__(self, batches: Any) -> None:
            self.each = iter(batches)
            self.load()

        def load(self) -> None:
            self.batch = next(self.each, None)

        def next(self) -> Any:
            batch = self.batch
            if batch is not None:
                self.load()
            return batch

    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(2):
            batches = Prefetcher(loader(E))
            while (batch := batches.next()) is not None:
                step(error(E, model, *batch), optimizer, model)
    return flight


def in_groups(E: Any, path: str, summed: bool) -> Any:
    """As transformers' Trainer accumulates: it fetches all batches of an update first. The last update of an epoch has fewer."""
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.3))
    optimizer = E.optim.Adam(model.parameters(), lr=0.05)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(3):
            each = iter(loader(E, *rows(E, 28)))
            while group := list(itertools.islice(each, 3)):
                optimizer.zero_grad()
                losses = [error(E, model, x, y) / len(group) for x, y in group]
                for loss in [sum(losses)] if summed else losses:
                    loss.backward()
                optimizer.step()
                saw(loss, model)
    return flight


KINDS["groups_of_batches"] = partial(in_groups, summed=False)
KINDS["groups_with_one_loss"] = partial(in_groups, summed=True)


@kind
def first_batch_before_the_loop(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.3))
    optimizer = E.optim.Adam(model.parameters(), lr=0.05)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(2):
            each = iter(loader(E))
            x, y = next(each)
            model(x)
            for x, y in each:
                step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def skipped_batches(E: Any, path: str) -> Any:
    E.manual_seed(0)
    model = net(E, E.nn.Dropout(0.3))
    optimizer = E.optim.Adam(model.parameters(), lr=0.05)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in range(2):
            for i, (x, y) in enumerate(loader(E)):
                if i % 3 == 0:
                    continue
                step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def two_phases(E: Any, path: str) -> Any:
    """Two loops with an optimizer each; validation first."""
    E.manual_seed(0)
    model = net(E)
    first, second = E.optim.SGD(model.parameters(), lr=0.1), E.optim.Adam(model[2].parameters(), lr=0.01)
    x, y = rows(E)
    with wb.flight(model, first, second, path=path) as flight:
        for xs, ys in loader(E):
            with E.no_grad():
                error(E, model, xs, ys)
        for xs, ys in loader(E, batch_size=8):
            step(error(E, model, xs, ys), first, model)
        for i in flight(range(5)):
            step(error(E, model, x, y) * (i + 1), second, model)
    return flight


Pair = namedtuple("Pair", "x y")


class Mapped(dict):
    """A dict with an attribute."""

    def __init__(self, x: Any, y: Any) -> None:
        super().__init__(x=x, y={"is": y})
        self.name = "some"


class Wrapped:
    """As a batch of a library for graphs: it holds a store, which refers back to it, and a class."""

    def __init__(self, x: Any, y: Any) -> None:
        self.store, self.kind = Mapped(x, y), Pair
        self.store.owner = weakref.ref(self)
        self.named = UserDict({"x": x})

    def pair(self) -> Any:
        assert self.store.owner() is self and self.store.name == "some" and self.named["x"].shape == self.store["x"].shape
        return self.kind(self.store["x"], self.store["y"]["is"])


def odd_batches(E: Any, path: str, form: Callable) -> Any:
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for batch in flight([form(x, y) for x, y in loader(E)]):
            if isinstance(batch, Wrapped):
                x, y = batch.pair()
            elif isinstance(batch, dict):
                x, y = batch["x"], batch["y"]["is"]
            elif isinstance(batch, Pair):
                x, y = batch.x, batch.y
            else:
                x, y = map(E.as_tensor, batch)
            step(error(E, model, x, y), optimizer, model)
    return flight


KINDS["dict_batches"] = partial(odd_batches, form=lambda x, y: {"x": x, "y": {"is": y}, "name": "some"})
KINDS["batches_of_a_class_like_dict"] = partial(odd_batches, form=Mapped)
KINDS["batches_of_a_class"] = partial(odd_batches, form=Wrapped)
KINDS["tuple_batches"] = partial(odd_batches, form=Pair)
KINDS["batches_in_other_memory_orders"] = partial(odd_batches, form=lambda x, y: [x.T.contiguous().T, numpy.asfortranarray(y.numpy())])
KINDS["numpy_batches"] = partial(odd_batches, form=lambda x, y: [x.numpy(), y.numpy()])


@kind
def augmentation_with_numpy_in_the_step(E: Any, path: str) -> Any:
    E.manual_seed(0)
    numpy.random.seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for x, y in loader(E):
            x = E.tensor(numpy.roll(x.numpy(), numpy.random.randint(4), 1) * numpy.float32(numpy.random.normal()))
            step(error(E, model, x, y), optimizer, model)
    return flight


@kind
def saved_on_the_way(E: Any, path: str) -> Any:
    """The program uses the recorder; each epoch is one step, with a loader of its own in it."""
    E.manual_seed(0)
    model = net(E)
    optimizer = E.optim.SGD(model.parameters(), lr=0.1)
    with wb.flight(model, optimizer, path=path) as flight:
        for _ in flight(range(5)):
            for x, y in loader(E, batch_size=8):
                loss = error(E, model, x, y) / (1 + flight.count)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            saw(loss, model)
            if flight.count > 1:
                flight.save()
    return flight


# -- places --------------------------------------------------------------------------------------------------------------------


class Trainer:
    """A training in a class, with a counter of its own."""

    def __init__(self, E: Any) -> None:
        self.E, self.model, self.turns, self.best = E, net(E), 0, float("inf")
        self.optimizer = E.optim.SGD(self.model.parameters(), lr=0.1)

    def batches(self) -> Iterator[Any]:
        yield from loader(self.E)

    def fit(self, path: str) -> Any:
        with wb.flight(self.model, self.optimizer, self, path=path) as flight:
            for _ in range(2):
                for x, y in self.batches():
                    self.learn(x, y)
        return flight

    def learn(self, x: Any, y: Any) -> None:
        self.turns += 1
        loss = error(self.E, self.model, x, y) / self.turns
        step(loss, self.optimizer, self.model)
        self.best = min(self.best, loss.item())


@kind
def trainer(E: Any, path: str) -> Any:
    E.manual_seed(0)
    return Trainer(E).fit(path)


SCRIPT = """
import {E} as E
import workbench as wb
from flight_programs import error, loader, net, step

E.manual_seed(0)
model = net(E)
optimizer = E.optim.SGD(model.parameters(), lr=0.1)
scheduler = E.optim.lr_scheduler.StepLR(optimizer, 2)
turns = 0
with wb.flight(model, optimizer, path={path!r}) as flight:
    for epoch in range(2):
        for x, y in loader(E):
            turns += 1
            step(error(E, model, x, y) / turns, optimizer, model)
            scheduler.step()
"""


@kind
def in_a_namespace(E: Any, path: str) -> Any:
    """Code of a module, by exec()."""
    names: dict[str, Any] = {"__name__": "cell"}
    exec(compile(SCRIPT.format(E=E.__name__, path=path), "<cell>", "exec"), names)
    return names["flight"]
