"""Programs whose backward pass is itself differentiated, written once for the engine and for PyTorch: `library` is either of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy


def values(*shape: int, seed: int) -> numpy.ndarray:
    return numpy.random.default_rng(seed).normal(size=shape)


def leaves_of(library: Any, *arrays: numpy.ndarray) -> list:
    return [library.tensor(array).requires_grad_() for array in arrays]


def critic_arrays() -> list[numpy.ndarray]:
    """Weights and biases of a small critic 2 -> 5 -> 1, float64."""
    return [values(5, 2, seed=1), values(5, seed=2), values(1, 5, seed=3), values(1, seed=4)]


def gradient_penalty(library: Any, params: list, real: numpy.ndarray, fake: numpy.ndarray, mix: numpy.ndarray) -> Any:
    """The critic's loss of WGAN-GP (Gulrajani et al., 2017, equation 3, with weight 10)."""
    w1, b1, w2, b2 = params

    def critic(x: Any) -> Any:
        return library.tanh(x @ w1.T + b1) @ w2.T + b2

    between = library.tensor(mix * real + (1 - mix) * fake).requires_grad_()
    (gradient,) = library.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = ((gradient.pow(2).sum(1).sqrt() - 1) ** 2).mean()
    return critic(library.tensor(fake)).mean() - critic(library.tensor(real)).mean() + 10 * penalty


def maml(library: Any, params: list, x: numpy.ndarray, y: numpy.ndarray, steps: int = 2, rate: float = 0.1) -> Any:
    """The outer loss of MAML (Finn et al., 2017): fitted by a few gradient steps on half of the data, judged on the other half."""
    xs, ys = library.tensor(x), library.tensor(y)
    inner, outer = slice(0, len(x) // 2), slice(len(x) // 2, None)

    def loss(weights: list, part: slice) -> Any:
        w1, b1, w2, b2 = weights
        return ((library.tanh(xs[part] @ w1.T + b1) @ w2.T + b2 - ys[part]) ** 2).mean()

    weights = list(params)
    for _ in range(steps):
        gradients = library.autograd.grad(loss(weights, inner), weights, create_graph=True)
        weights = [w - rate * g for w, g in zip(weights, gradients, strict=True)]
    return loss(weights, outer)


def wgan(library: Any) -> tuple[list, Callable[[list], Any]]:
    data = [values(4, 2, seed=5), values(4, 2, seed=6), numpy.random.default_rng(7).uniform(size=(4, 1))]
    return leaves_of(library, *critic_arrays()), lambda params: gradient_penalty(library, params, *data)


def meta_learner(library: Any) -> tuple[list, Callable[[list], Any]]:
    data = [values(6, 2, seed=8), values(6, 1, seed=9)]
    return leaves_of(library, *critic_arrays()), lambda params: maml(library, params, *data)


PROGRAMS = [wgan, meta_learner]
