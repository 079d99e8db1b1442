"""Optimizers with `differentiable=True` beside PyTorch's: the derivatives by parameters, gradients and hyper-parameters."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch

import engine

pytestmark = pytest.mark.torch
DECAY = {"weight_decay": 0.1}
CASES: list[tuple[str, dict, list]] = [
    ("SGD", {}, ["lr"]), ("SGD", {"momentum": 0.9}, []), ("SGD", {"momentum": 0.9, "nesterov": True, **DECAY}, ["lr", "weight_decay"]),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "maximize": True}, []), ("Adam", {}, ["lr", "betas"]), ("Adam", DECAY, ["weight_decay"]),
    ("AdamW", DECAY, ["lr", "weight_decay", "betas"]), ("NAdam", DECAY, []), ("NAdam", {"decoupled_weight_decay": True, **DECAY}, []),
    ("RAdam", DECAY, ["lr"]), ("Adagrad", {"lr_decay": 0.1, **DECAY}, []), ("Adadelta", DECAY, []), ("RMSprop", {}, []),
    ("ASGD", {"t0": 1, **DECAY}, []),
]  # fmt: skip


def derivatives(E: Any, name: str, options: dict, by: list, p: Any, g: Any) -> list:
    start, slope = (E.tensor(a, requires_grad=True) for a in (p, g))
    values = {"lr": 0.05, "betas": (0.8, 0.95), **options}
    hyper = {k: tuple(E.tensor(v, dtype=E.float64, requires_grad=True) for v in numpy.atleast_1d(values[k])) for k in by}
    given = {**options, "lr": 0.05, **{k: v if k == "betas" else v[0] for k, v in hyper.items()}}
    at = start.clone()
    optimizer = getattr(E.optim, name)([at], **given, differentiable=True)
    for i in range(7):
        at.grad = slope * (1 + i) * (-1 if i == 3 else 1)
        optimizer.step()
    loss = (at.cos() * E.arange(at.numel()).reshape(at.shape)).sum()
    return [loss, *E.autograd.grad(loss, [start, slope, *(v for vs in hyper.values() for v in vs)])]


@pytest.fixture
def counted_in_double():
    """Steps, and with them 1 - beta^t, are counted in the default dtype: in float32 they would leave an error of 1e-5."""
    for E in (torch, engine):
        E.set_default_dtype(E.float64)
    yield
    for E in (torch, engine):
        E.set_default_dtype(E.float32)


@pytest.mark.usefixtures("counted_in_double")
@pytest.mark.parametrize(("name", "options", "by"), CASES, ids=[f"{name}{i}" for i, (name, *_) in enumerate(CASES)])
def test_derivatives(name, options, by):
    p, g = numpy.random.standard_normal((2, 3, 4))
    theirs, ours = (derivatives(E, name, options, by, p, g) for E in (torch, engine))
    for a, b in zip(theirs, ours, strict=True):
        assert numpy.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD", "Adamax"])
def test_refusals(name):
    told = []
    for E in (torch, engine):
        leaf = E.ones(2, requires_grad=True)
        leaf.grad = E.ones(2)
        with pytest.raises(RuntimeError) as one:
            getattr(E.optim, name)([leaf], lr=0.1, differentiable=True).step()
        with pytest.raises(ValueError) as two:
            getattr(E.optim, name)([leaf * 2], lr=0.1)
        told.append((type(one.value), str(two.value)))
    assert told[0] == told[1]
