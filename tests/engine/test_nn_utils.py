"""Initializers, clipping of gradients, parameters as a vector."""

from __future__ import annotations

import math

import numpy
import pytest
import scipy
from nets import close, values

import engine
from engine import nn
from engine.nn import functional as F
from engine.nn import init
from engine.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters

DRAWN = [  # torch 2.13: torch.manual_seed(0), then this on torch.empty(3, 2)
    ("xavier_uniform_", {}, [[-0.0082014, 0.5876445], [-0.9016008, -0.8061808], [-0.4219155, 0.2937517]]),
    ("xavier_normal_", {"gain": 2}, [[1.949223, -0.3711615], [-2.7559748, 0.719015], [-1.3718243, -1.7690988]]),
    ("kaiming_uniform_", {"nonlinearity": "relu"}, [[-0.0129676, 0.9291475], [-1.4255559, -1.2746837], [-0.6671069, 0.4644622]]),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, [[1.2582181, -0.2395837], [-1.7789741, 0.4641222], [-0.8855088, -1.1419483]]),
    ("normal_", {"mean": 1, "std": 3}, [[5.6229882, 0.1197133], [-5.5363684, 2.7052939], [-2.253567, -3.1957862]]),
    ("uniform_", {"a": -1, "b": 1}, [[-0.0074868, 0.5364436], [-0.8230451, -0.735939], [-0.3851544, 0.2681574]]),
    ("orthogonal_", {"gain": 2}, [[1.069905, -0.3398602], [-1.5127217, 0.6803676], [-0.752978, -1.8497554]]),
    ("trunc_normal_", {"std": 2.0, "b": 0.5}, [[-1.7133492, -0.5868578], [-1.4385152, -0.8066871], [-1.1932707, 0.364073]]),
    ("trunc_normal_", {"a": 1.5, "b": 3.0}, [[1.5334886, 1.7532884], [1.6327162, 1.6980457], [1.9611342, 2.0601261]]),
    ("sparse_", {"sparsity": 0.35}, [[0.0, 0.0], [-0.0217879, 0.0], [0.0, -0.013986]]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "expected"), DRAWN)
def test_initializers_draw_as_torch(name, options, expected):
    engine.manual_seed(0)
    w = engine.empty(3, 2)
    assert getattr(init, name)(w, **options) is w
    close(w, expected)


@pytest.mark.parametrize(("a", "b"), [(-0.5, 1.5), (0.9, 1.5)])  # normal draws fall inside often, seldom
def test_truncated_normal(a, b):
    engine.manual_seed(0)
    w = init.trunc_normal_(engine.empty(100, 100), 0.25, 0.5, a, b)
    wanted = scipy.stats.truncnorm((a - 0.25) / 0.5, (b - 0.25) / 0.5, 0.25, 0.5)
    assert values(w).min() >= a and values(w).max() <= b
    assert scipy.stats.kstest(values(w).ravel(), wanted.cdf).pvalue > 0.01


def test_initializing_a_tensor_without_elements_warns():
    for make in (lambda: nn.Linear(0, 3), lambda: nn.Conv2d(1, 0, 3), lambda: nn.init.kaiming_normal_(engine.zeros(0, 2))):
        with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
            make()
    nn.LazyLinear(3)(engine.ones(2, 4))  # the weights of lazy modules are empty at first
    nn.LazyConv2d(3, 2)(engine.ones(1, 2, 4, 4))


def test_initializers():
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 1) == 1.0 and init.calculate_gain("conv2d") == 1
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
    p, q = (nn.Parameter(engine.tensor(v)) for v in ([3.0, 0.0], [[4.0]]))
    for norm, expected in ((2.0, 5.0), (1.0, 7.0), (math.inf, 4.0), (3.0, 91 ** (1 / 3))):
        p.grad, q.grad = engine.tensor([3.0, 0.0]), engine.tensor([[4.0]])
        close(clip_grad_norm_([p, q], 1.0, norm), expected)
        close(p.grad, numpy.array([3.0, 0.0]) / (expected + 1e-6), rtol=1e-5)
    p.grad = engine.tensor([3.0, 0.0])
    clip_grad_norm_([p], 10.0)
    assert p.grad.tolist() == [3.0, 0.0]
    clip_grad_value_([p, q], 0.5)
    assert p.grad.tolist() == [0.5, 0.0]
    p.grad = engine.tensor([math.nan, 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert clip_grad_norm_([], 1.0).item() == 0


@pytest.mark.parametrize("p", [math.inf, -math.inf, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [engine.float16, engine.float32, engine.float64, engine.complex64])
def test_total_norm_is_that_of_all_tensors_as_one_vector(p, dtype):
    arrays = [numpy.linspace(-2, 3, 7).reshape(7, 1), numpy.linspace(1, 2, 4)]
    found = nn.utils.get_total_norm([engine.tensor(a).to(dtype) for a in arrays], p)
    expected = [numpy.linalg.norm(a.ravel(), p) for a in arrays]
    close(found, numpy.linalg.norm(expected, p), rtol=2e-3 if dtype == engine.float16 else 1e-5)
    assert found.dtype == {engine.complex64: engine.float32}.get(dtype, dtype)


def test_parameters_as_a_vector():
    net = nn.Linear(2, 1)
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (3,) and vector.requires_grad
    vector_to_parameters(engine.tensor([1.0, 2.0, 3.0]), net.parameters())
    assert net.weight.tolist() == [[1, 2]] and net.bias.tolist() == [3] and net.weight.requires_grad


def test_weights_in_another_memory_format():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv3d(3, 4, 3), nn.ConvTranspose2d(3, 4, 3), nn.Linear(3, 4))
    weight = net[0].weight
    before = values(weight).copy()
    assert nn.utils.convert_conv2d_weight_memory_format(net, engine.channels_last) is net
    assert net[0].weight is weight and weight.stride() == (27, 1, 9, 3) and weight.is_leaf and weight.requires_grad
    assert net[2].weight.stride() == (36, 1, 12, 4) and net[1].weight.is_contiguous() and (values(weight) == before).all()
    nn.utils.convert_conv3d_weight_memory_format(net, engine.channels_last_3d)
    assert net[1].weight.stride() == (81, 1, 27, 9, 3)


def test_a_module_in_another_memory_format():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(engine.float64, memory_format=engine.channels_last)
    assert net[0].weight.stride() == (27, 1, 9, 3) and net[0].weight.dtype is engine.float64
    assert net[0].bias.stride() == net[1].running_mean.stride() == (1,)
    assert net.to(memory_format=engine.contiguous_format)[0].weight.stride() == (27, 9, 3, 1)
    with pytest.raises(RuntimeError, match="rank 4 tensor"):
        nn.Conv3d(3, 4, 3).to(memory_format=engine.channels_last)
