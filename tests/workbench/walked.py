"""Small programs with a loss, for tests that compare what the workbench does with what plain `backward()` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import engine
from engine import nn


def leaf(*shape: int, seed: int = 0) -> Any:
    made = engine.tensor(numpy.random.default_rng(seed).normal(size=shape).astype(numpy.float32))
    return made.requires_grad_()


def tanh_layer() -> tuple[list, Callable]:
    x, w, b = leaf(2, 4), leaf(4, 3, seed=1), leaf(3, seed=2)
    return [x, w, b], lambda: engine.tanh(x @ w + b).sum()


def fan_out() -> tuple[list, Callable]:
    x = leaf(3)
    return [x], lambda: (x * x + x.exp() * x - x).sum()


def unrolled() -> tuple[list, Callable]:
    w, x = leaf(3, 3), leaf(2, 3, seed=1)

    def run() -> Any:
        h = x
        for _ in range(4):
            h = engine.tanh(h @ w) * 0.5
        return (h * h).mean()

    return [w, x], run


def several_results() -> tuple[list, Callable]:
    x = leaf(4, 5)

    def run() -> Any:
        values, _ = x.topk(2, 1)
        parts = x.split(2)
        return values.sum() + (parts[0] * parts[1]).sum()

    return [x], run


def in_place() -> tuple[list, Callable]:
    x = leaf(3, 3)

    def run() -> Any:
        y = x * 2
        y[0] = y[1] * 3
        y.mul_(x)
        return y.sum()

    return [x], run


def classifier() -> tuple[list, Callable]:
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    x, t = leaf(5, 6).detach(), engine.tensor([0, 1, 2, 3, 0])
    return list(model.parameters()), lambda: nn.functional.cross_entropy(model(x), t)


def convolution() -> tuple[list, Callable]:
    engine.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 2), nn.LayerNorm(2))
    x = leaf(2, 1, 8, 8).detach()
    return list(model.parameters()), lambda: model(x).square().sum()


def recurrent() -> tuple[list, Callable]:
    engine.manual_seed(0)
    model = nn.LSTM(3, 4)
    x = leaf(5, 2, 3).detach()
    return list(model.parameters()), lambda: model(x)[0].square().mean()


def transformer() -> tuple[list, Callable]:
    engine.manual_seed(0)
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    x = leaf(3, 2, 8).detach()
    return list(model.parameters()), lambda: model(x).square().sum()


PROGRAMS = [tanh_layer, fan_out, unrolled, several_results, in_place, classifier, convolution, recurrent, transformer]


def added_to(program: Callable) -> tuple[list, Callable, list[bytes | None]]:
    """Leaves that have gradients of one pass already, the program, and what a second pass leaves in them."""
    leaves, run = program()
    run().backward()
    run().backward()
    wanted = bits(leaves)
    for x in leaves:
        x.grad = None
    run().backward()
    return leaves, run, wanted


def bits(leaves: list) -> list[bytes | None]:
    """The gradients of the leaves, bit for bit."""
    return [None if x.grad is None else x.grad.detach().numpy().tobytes() for x in leaves]
