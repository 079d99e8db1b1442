"""The LSTM by CUDA kernels and the other recurrent layers by CuPy, on the emulator and on the stand-in for CuPy."""

from __future__ import annotations

import importlib

import numpy
import pytest
from fake_cupy import EPS, F32, F64, emulated, wide

import engine
from engine.backends import kernels_lstm
from engine.backends.gpu import launch, lstm

SIZES = [(3, 2, 5), (1, 1, 1), (4, 130, 3), (2, 3, 257), (3, 0, 4)]  # steps, rows, units


@pytest.fixture
def device(monkeypatch):
    made = emulated(monkeypatch, lstm)
    monkeypatch.setattr(lstm, "matmul", lambda a, b: made.array(numpy.asarray(a) @ numpy.asarray(b)))
    yield made
    assert made.intact()


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_states_and_gradients_are_those_of_the_definition(device, size, reverse, dtype):
    steps, rows, units = size
    draw = numpy.random.default_rng(units).standard_normal
    shapes = (steps, rows, 4 * units), (rows, units), (rows, units), (4 * units, units)
    given, h, c, weight = (draw(shape) / (units**0.5 if len(shape) == 2 else 1) for shape in shapes)
    g, dc = draw((steps, rows, units)), draw((rows, units))
    xp = importlib.import_module("engine.backends.cpu")
    states = kernels_lstm.lstm_plainly(xp, given, h, c, weight, reverse)
    grads = kernels_lstm.lstm_back_plainly(xp, g, dc, h, c, weight, states[0], *states[2:], reverse)

    given, h, c, weight, g, dc = (device.array(x.astype(dtype)) for x in (given, h, c, weight, g, dc))
    found = lstm.lstm(given, h, c, weight, reverse)
    back = lstm.lstm_back(g, dc, h, c, weight, found[0], *found[2:], reverse)
    for a, b in zip([*found, *back], [*states, *grads], strict=True):
        assert a.dtype == dtype and a.shape == b.shape
        assert numpy.all(abs(wide(a) - b) <= 50 * steps * EPS[dtype] * (abs(b) + max(1, rows)))


def test_a_layer_launches_one_kernel_and_one_product_for_each_step(stand_in):
    engine.manual_seed(0)
    layer, x = engine.nn.LSTM(4, 6, 2, bidirectional=True), engine.randn(5, 3, 4)
    expected = layer(x)[0]
    expected.square().sum().backward()
    wanted = [p.grad.clone() for p in layer.parameters()]
    layer, launches = layer.cuda(), importlib.import_module("engine.backends.gpu.launch").driver.launches
    layer.zero_grad()
    launches.clear()
    out = layer(x.cuda())[0]
    assert launches.count("lstm_step") == 4 * 5
    out.square().sum().backward()
    assert launches.count("lstm_step_back") == 4 * 5
    engine.testing.assert_close(out.cpu(), expected)
    engine.testing.assert_close([p.grad.cpu() for p in layer.parameters()], wanted)


def test_second_derivatives_and_half_precision(stand_in):
    engine.manual_seed(0)
    layer, x = engine.nn.LSTM(3, 4), engine.randn(3, 2, 3)

    def twice(layer, x):
        x = x.detach().requires_grad_()
        (d,) = engine.autograd.grad(layer(x)[0].sin().sum(), x, create_graph=True)
        return engine.autograd.grad((d**2).sum(), x)[0].cpu()

    expected, low = twice(layer, x), layer.bfloat16()(x.bfloat16())[0]
    layer = layer.float().cuda()
    engine.testing.assert_close(twice(layer, x.cuda()), expected, rtol=2e-2, atol=2e-3)  # the weights have been rounded
    assert engine.allclose(layer.bfloat16()(x.cuda().bfloat16())[0].cpu(), low, atol=1e-2)


@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_other_layers_compute_what_they_compute_on_the_cpu(stand_in, kind):
    engine.manual_seed(0)
    layer, x = getattr(engine.nn, kind)(4, 6, 2, bidirectional=True), engine.randn(5, 3, 4)
    expected = layer(x)[0]
    expected.square().sum().backward()
    wanted = [p.grad.clone() for p in layer.parameters()]
    layer = layer.cuda()
    layer.zero_grad()
    out = layer(x.cuda())[0]
    out.square().sum().backward()
    engine.testing.assert_close(out.cpu(), expected)
    engine.testing.assert_close([p.grad.cpu() for p in layer.parameters()], wanted)


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
def test_the_compiler_takes_every_text(arch):
    for T in ("float", "double"):
        ptx = launch.compiled(launch.source("lstm.cu", T=T), arch).decode()
        assert T == "double" or ".f64" not in ptx
