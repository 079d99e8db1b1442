"""Initializers, clipping of gradients, parameters as a vector."""

from __future__ import annotations

import math

import numpy
import pytest
from nets import close, values

import engine
from engine import Tensor, nn
from engine.nn import functional as F
from engine.nn import init
from engine.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters


def test_initializers():
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 1) == 1.0 and init.calculate_gain("conv2d") == 1
    w = engine.empty(30, 20)
    for fn, std in (
        (lambda: init.xavier_uniform_(w), math.sqrt(2 / 50)),
        (lambda: init.xavier_normal_(w, gain=2), 2 * math.sqrt(2 / 50)),
        (lambda: init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(2 / 20)),
        (lambda: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 30)),
        (lambda: init.normal_(w, 0, 3), 3),
        (lambda: init.uniform_(w, -1, 1), math.sqrt(1 / 3)),
    ):
        engine.manual_seed(0)
        assert fn() is w and abs(values(w).std() / std - 1) < 0.1 and abs(values(w).mean()) < std / 5
    init.trunc_normal_(w, std=2.0, a=-1, b=1.5)
    assert values(w).min() >= -1 and values(w).max() <= 1.5
    close(init.eye_(engine.empty(2, 3)), numpy.eye(2, 3))
    q = values(init.orthogonal_(engine.empty(3, 5), gain=2))
    close(q @ q.T, 4 * numpy.eye(3), atol=1e-5)
    assert ((values(init.sparse_(engine.empty(10, 4), 0.35)) == 0).sum(0) == 4).all()
    kernel = init.dirac_(engine.empty(2, 2, 3, 3))
    x = engine.randn(1, 2, 5, 5)
    close(F.conv2d(x, kernel, padding=1), values(x))
    for bad in (lambda: init.xavier_uniform_(engine.empty(3)), lambda: init.eye_(engine.empty(3)), lambda: init.calculate_gain("nothing")):
        with pytest.raises(ValueError):
            bad()


def test_gradient_clipping():
    p, q = (nn.Parameter(Tensor(v)) for v in ([3.0, 0.0], [[4.0]]))
    for norm, expected in ((2.0, 5.0), (1.0, 7.0), (math.inf, 4.0), (3.0, 91 ** (1 / 3))):
        p.grad, q.grad = Tensor([3.0, 0.0]), Tensor([[4.0]])
        close(clip_grad_norm_([p, q], 1.0, norm), expected)
        close(p.grad, numpy.array([3.0, 0.0]) / (expected + 1e-6), rtol=1e-5)
    p.grad = Tensor([3.0, 0.0])
    clip_grad_norm_([p], 10.0)
    assert p.grad.tolist() == [3.0, 0.0]
    clip_grad_value_([p, q], 0.5)
    assert p.grad.tolist() == [0.5, 0.0]
    p.grad = Tensor([math.nan, 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert clip_grad_norm_([], 1.0).item() == 0


def test_parameters_as_a_vector():
    net = nn.Linear(2, 1)
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (3,) and vector.requires_grad
    vector_to_parameters(Tensor([1.0, 2.0, 3.0]), net.parameters())
    assert net.weight.tolist() == [[1, 2]] and net.bias.tolist() == [3] and net.weight.requires_grad
