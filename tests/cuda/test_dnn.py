"""Convolutions by cuDNN: on a stand-in for it that computes from the graph and the addresses, and planned by the real library."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy
import pytest
import syncs
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.backends import cudnn as switches
from engine.backends import kernels_conv
from engine.base.errors import Refused
from engine.base.layout import blank, channels_last, contiguous_format, lies_in

pytest.importorskip("cupy")  # needs no GPU

import emulate
import host_cudnn
from dnn_cases import FORMATS, GEOMETRIES
from on_stand_in import installed

HERE = Path(__file__).parent
DTYPES = {"float32": numpy.dtype("f"), "float16": numpy.dtype("e"), "bfloat16": numpy.dtype(ml_dtypes.bfloat16)}
ROUNDING = {"float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}  # relative, of one rounding of a result


@pytest.fixture(scope="module")
def module() -> Iterator[Any]:
    with installed(gpus=2) as backend:
        importlib.import_module("engine.backends.gpu.launch").driver = emulate.Emulator()
        yield SimpleNamespace(dnn=importlib.import_module("engine.backends.gpu.dnn"), cupy=backend.cupy)


@pytest.fixture
def gpu(module: Any) -> Any:
    """The backend with cuDNN's stand-in, without plans."""
    module.dnn._thread.plans.clear()
    module.dnn._warn.cache_clear()
    host_cudnn.graphs.clear()
    return module


def runs() -> list[tuple[str, int]]:
    """The plan and stream of each execution."""
    return [run for graph in host_cudnn.graphs for run in graph.runs]


def values(shape: tuple, dtype: Any = numpy.float32, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


def on_device(gpu: Any, x: numpy.ndarray, format: Any = contiguous_format, offset: int = 0) -> Any:
    """A copy in a memory format, `offset` elements after the start of its block."""
    memory = gpu.cupy.empty(x.size + offset, x.dtype)[offset:]
    out = blank(lambda shape, dtype: memory.reshape(shape), x.shape, x.dtype, format)
    out[...] = gpu.cupy.asarray(x)
    return out


def same(found: Any, expected: numpy.ndarray, dtype: Any) -> None:
    """The result is what float64 gives, rounded once."""
    assert found.dtype == dtype and found.shape == expected.shape
    bound = ROUNDING[dtype.name]
    numpy.testing.assert_allclose(found.get().astype(float), expected, rtol=bound, atol=bound * 1e-3)


# -- against the CPU ---------------------------------------------------------------------------------------------------------


class Case(SimpleNamespace):
    """A convolution: `x` and `weight` are shapes, `rest` the stride, padding, dilation and groups."""


@st.composite
def convolutions(draw: Any) -> Case:
    n, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(n))  # noqa: E731
    kernel, dilation, padding = each(1, 3), each(1, 2), draw(st.sampled_from(["same", "valid", None]))
    stride = (1,) * n if padding == "same" else each(1, 3)
    padding = each(0, 2) if padding is None else padding
    pads = padding if padding.__class__ is tuple else (0,) * n
    size = tuple(draw(st.integers(max(d * (k - 1) + 1 - 2 * p, 1), 7)) for d, k, p in zip(dilation, kernel, pads, strict=True))
    inner, outer = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    formats = st.sampled_from([contiguous_format, FORMATS[n + 2, True]])
    return Case(
        x=(draw(st.integers(1, 3)), groups * inner, *size), weight=(groups * outer, inner, *kernel), rest=(stride, padding, dilation, groups),
        dtype=DTYPES[draw(st.sampled_from([*DTYPES]))], formats=(draw(formats), draw(formats)), offset=draw(st.sampled_from([0, 0, 1, 8])),
        bias=draw(st.booleans()),
    )  # fmt: skip


@given(case=convolutions())
@settings(max_examples=400)
def test_any_convolution_and_its_gradients_equal_the_cpus(module, case):
    check(module, case)


def check(gpu: Any, case: Case) -> None:
    x, weight, bias = values(case.x, case.dtype, 1), values(case.weight, case.dtype, 2), values(case.weight[:1], case.dtype, 3)
    on = [on_device(gpu, a, format, case.offset) for a, format in zip((x, weight), case.formats, strict=True)]
    given_bias = (on_device(gpu, bias),) if case.bias else ()
    expected = kernels_conv.convolution(x.astype(float), weight.astype(float), *case.rest, *(b.get().astype(float) for b in given_bias))
    g = values(expected.shape, case.dtype, 4)
    on_g, count = on_device(gpu, g, case.formats[0], case.offset), len(runs())
    found = gpu.dnn.convolution(*on, *case.rest, *given_bias)
    same(found, expected, case.dtype)
    d_x = gpu.dnn.convolution_input(on_g, on[1], case.x, *case.rest)
    same(d_x, kernels_conv.convolution_input(g.astype(float), weight.astype(float), case.x, *case.rest), case.dtype)
    d_weight = gpu.dnn.convolution_weight(on_g, on[0], case.weight, *case.rest)
    same(d_weight, kernels_conv.convolution_weight(g.astype(float), x.astype(float), case.weight, *case.rest), case.dtype)
    assert len(runs()) == count + 3


@pytest.mark.parametrize("last", [False, True], ids=["rows", "channels_last"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_result_has_the_memory_order_of_the_operands(gpu, name, last):
    x, weight, rest = GEOMETRIES[name]
    format = FORMATS[len(x), last]
    for formats in {(format, contiguous_format), (contiguous_format, format), (format, format)}:
        check(gpu, Case(x=x, weight=weight, rest=rest, dtype=DTYPES["float16"], formats=formats, offset=0, bias=True))
        on = [on_device(gpu, values(s, "e"), f) for s, f in zip((x, weight), formats, strict=True)]
        out = gpu.dnn.convolution(*on, *rest)
        assert lies_in(out, format)
        assert lies_in(gpu.dnn.convolution_input(out, on[1], x, *rest), format) and lies_in(
            gpu.dnn.convolution_weight(out, on[0], weight, *rest), format
        )


def test_operands_are_not_copied(gpu, monkeypatch):
    copies = []
    monkeypatch.setattr(gpu.dnn, "laid_out", lambda x, format: copies.append(x.strides) or x.copy())
    for format in (contiguous_format, channels_last):
        x, weight = on_device(gpu, values((2, 3, 5, 5)), format), on_device(gpu, values((4, 3, 3, 3)), format)
        out = gpu.dnn.convolution(x, weight, bias=on_device(gpu, values((4,))))
        gpu.dnn.convolution_input(out, weight, x.shape), gpu.dnn.convolution_weight(out, x, weight.shape)
    assert not copies
    gpu.dnn.convolution(x[:, :, ::2], weight)
    assert copies == [x[:, :, ::2].strides]


def test_operands_without_order_are_copied(gpu):
    """Broadcast gradients, transposed and reversed views, a bias with a stride."""
    x, weight, g = values((2, 4, 6, 6)), values((4, 4, 3, 3)), values((2, 4, 1, 1))
    on = gpu.cupy.asarray
    cases = [
        (gpu.dnn.convolution, kernels_conv.convolution, lambda to: (to(x).swapaxes(2, 3), to(weight)[::-1])),
        (gpu.dnn.convolution_input, kernels_conv.convolution_input, lambda to: (spread(to(g)), to(weight).swapaxes(0, 1), x.shape)),
        (gpu.dnn.convolution_weight, kernels_conv.convolution_weight, lambda to: (spread(to(g)), to(x)[:, ::-1], weight.shape)),
    ]

    def spread(a: Any) -> Any:
        return (numpy if isinstance(a, numpy.ndarray) else gpu.cupy).broadcast_to(a, (2, 4, 4, 4))

    for run, plain, operands in cases:
        same(run(*operands(on)), plain(*operands(lambda a: a.astype(float))), DTYPES["float32"])
    bias = values((8,))
    expected = kernels_conv.convolution(x.astype(float), weight.astype(float), bias=bias[::2].astype(float))
    same(gpu.dnn.convolution(on(x), on(weight), bias=on(bias)[::2]), expected, DTYPES["float32"])
    assert len(runs()) == 4


def test_without_a_batch_dimension(gpu):
    x, weight, g = values((4, 6, 6)), values((3, 4, 3, 3)), values((3, 4, 4))
    on, wide = gpu.cupy.asarray, lambda a: a.astype(float)
    same(gpu.dnn.convolution(on(x), on(weight)), kernels_conv.convolution(wide(x), wide(weight)), DTYPES["float32"])
    same(gpu.dnn.convolution_input(on(g), on(weight), x.shape), kernels_conv.convolution_input(wide(g), wide(weight), x.shape), x.dtype)
    same(gpu.dnn.convolution_weight(on(g), on(x), weight.shape), kernels_conv.convolution_weight(wide(g), wide(x), weight.shape), x.dtype)
    assert len(runs()) == 3


# -- layers ------------------------------------------------------------------------------------------------------------------

LAYERS = {
    "Conv1d": (lambda nn: nn.Conv1d(4, 6, 3, padding=1), (2, 4, 9)),
    "Conv2d": (lambda nn: nn.Conv2d(4, 6, 3, stride=2), (2, 4, 9, 8)),
    "Conv2d of one image": (lambda nn: nn.Conv2d(4, 6, 3), (4, 7, 8)),
    "Conv2d, even and same": (lambda nn: nn.Conv2d(4, 6, 2, padding="same", bias=False), (2, 4, 9, 8)),
    "Conv2d, circular": (lambda nn: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), (2, 4, 6, 6)),
    "Conv2d, grouped and dilated": (lambda nn: nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding=[2, 1]), (2, 4, 9, 8)),
    "Conv3d": (lambda nn: nn.Conv3d(2, 4, (2, 3, 3), padding=(0, 1, 1), stride=(1, 2, 1)), (2, 2, 4, 6, 5)),
    "ConvTranspose1d": (lambda nn: nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1), (2, 4, 7)),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 5, 6)),
    "ConvTranspose2d, dilated": (lambda nn: nn.ConvTranspose2d(4, 6, 3, dilation=2), (2, 4, 5, 6)),
    "ConvTranspose3d": (lambda nn: nn.ConvTranspose3d(2, 4, 2, stride=2, bias=False), (1, 2, 3, 4, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_forward_and_backward_equal_the_cpus(gpu, name):
    make, shape = LAYERS[name]
    layer, x = make(engine.nn), engine.tensor(values(shape), requires_grad=True)
    out = layer(x)
    g = engine.tensor(values(tuple(out.shape), seed=1))
    expected = [out, *engine.autograd.grad(out, (x, *layer.parameters()), g)]
    x, layer = x.detach().cuda().requires_grad_(), layer.cuda()
    out = layer(x)
    found = [out, *engine.autograd.grad(out, (x, *layer.parameters()), g.cuda())]
    for a, b in zip(found, expected, strict=True):
        engine.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5)
    assert len(runs()) == 3


@pytest.mark.parametrize("name", LAYERS)
def test_half_precision_stays_half_precision(gpu, name):
    make, shape = LAYERS[name]
    layer, x = make(engine.nn).to("cuda", engine.float16), engine.tensor(values(shape)).to("cuda", engine.float16).requires_grad_()
    out = layer(x)
    out.backward(engine.ones_like(out))
    assert [graph.io_data_type.name for graph in host_cudnn.graphs] == ["HALF"] * 3
    wide, y = make(engine.nn).double(), x.detach().cpu().double().requires_grad_()
    wide.load_state_dict({k: v.cpu().double() for k, v in layer.state_dict().items()})
    expected = wide(y)
    expected.backward(engine.ones_like(expected))
    for a, b in zip(
        (out, x.grad, *(p.grad for p in layer.parameters())), (expected, y.grad, *(p.grad for p in wide.parameters())), strict=True
    ):
        engine.testing.assert_close(a.detach().cpu().double(), b.detach(), rtol=3e-3, atol=3e-3 * (1 + b.abs().max().item()))


def test_half_precision_without_cudnn(gpu):
    layer, x = engine.nn.Conv2d(4, 6, 3).to("cuda", engine.bfloat16), engine.tensor(values((2, 4, 5, 6))).to("cuda", engine.bfloat16)
    with switches.flags(enabled=False):
        found = layer(x)
    assert found.dtype is engine.bfloat16 and not host_cudnn.graphs
    engine.testing.assert_close(found.cpu().float(), layer(x).cpu().float(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [engine.float32, engine.bfloat16], ids=str)
def test_channels_last_stays_so(gpu, monkeypatch, dtype):
    """Through convolutions, batch norms, activations and transposed convolutions, and back; weights of norms may be in float32."""
    nn, copies, laid_out = engine.nn, [], gpu.dnn.laid_out
    monkeypatch.setattr(gpu.dnn, "laid_out", lambda x, format: copies.append(x.shape) or laid_out(x, format))
    engine.manual_seed(0)
    layers = [
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 3, stride=2),
        nn.ConvTranspose2d(4, 6, 2, bias=False),
    ]
    net, x = nn.Sequential(*layers, nn.BatchNorm2d(6)), engine.tensor(values((2, 3, 6, 7)))
    runs = []
    for place, format in (("cpu", engine.contiguous_format), ("cuda", engine.channels_last)):
        own = copy.deepcopy(net).to(place).to(memory_format=format)
        if place == "cuda":
            for layer in own:
                layer.to(dtype) if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)) else None
        given = x.to(place, dtype if place == "cuda" else None).to(memory_format=format).requires_grad_()
        outs = [given]
        for layer in own:
            outs.append(layer(outs[-1]))
            assert place == "cpu" or outs[-1].dtype is dtype and outs[-1].is_contiguous(memory_format=engine.channels_last)
        grads = engine.autograd.grad(
            (outs[-1].float() * engine.arange(6, device=place)[:, None, None]).relu().sum(), [*outs[:-1], *own.parameters()]
        )
        runs.append([a.detach().float().cpu() for a in (*outs, *grads, *own.buffers())])
    assert not copies
    tolerance = 1e-4 if dtype is engine.float32 else 0.25
    for a, b in zip(runs[1], runs[0], strict=True):
        assert (a - b).norm() <= tolerance * (b.norm() + 1)


def test_the_second_derivative_and_vmap_use_cudnn_too(gpu):
    x, w = engine.tensor(values((2, 4, 6, 6))), engine.tensor(values((3, 4, 3, 3)))

    def twice(x: Any, w: Any) -> Any:
        x, w = x.requires_grad_(), w.requires_grad_()
        (d,) = engine.autograd.grad((engine.nn.functional.conv2d(x, w) ** 2).sum(), x, create_graph=True)
        return engine.autograd.grad((d**2).sum(), w)[0]

    engine.testing.assert_close(twice(x.cuda(), w.cuda()).cpu(), twice(x.clone(), w.clone()), rtol=1e-4, atol=1e-2)
    each = engine.func.vmap(engine.nn.functional.conv2d, (0, 0))
    xs, ws = engine.tensor(values((5, 2, 4, 6, 6))), engine.tensor(values((5, 3, 4, 3, 3)))
    count = len(runs())
    engine.testing.assert_close(each(xs.cuda(), ws.cuda()).cpu(), each(xs, ws), rtol=1e-5, atol=1e-5)
    assert count >= 4 and len(runs()) == count + 1


# -- plans -------------------------------------------------------------------------------------------------------------------


def test_a_plan_is_built_once_and_nothing_waits(gpu):
    x, weight = gpu.cupy.asarray(values((2, 3, 5, 5))), gpu.cupy.asarray(values((4, 3, 3, 3)))
    syncs.found.clear()
    for _ in range(3):
        gpu.dnn.convolution(x, weight, [1, 1], (0, 0))
    gpu.dnn.convolution(x + 1, weight * 2, (1, 1), [0, 0])  # other memory
    assert len(host_cudnn.graphs) == 1 and len(runs()) == 4
    gpu.dnn.convolution(x[:1], weight)
    gpu.dnn.convolution(x, weight, 2)
    gpu.dnn.convolution(x, weight, 1, 1)
    gpu.dnn.convolution(x.astype("e"), weight.astype("e"))
    assert len(host_cudnn.graphs) == 5 and syncs.found == []


def test_the_oldest_plans_are_dropped(gpu, monkeypatch):
    monkeypatch.setattr(gpu.dnn, "_MOST_PLANS", 2)
    weight = gpu.cupy.asarray(values((4, 3, 3, 3)))
    for n in (1, 2, 3, 3, 2, 1):
        gpu.dnn.convolution(gpu.cupy.asarray(values((n, 3, 5, 5))), weight)
        assert len(gpu.dnn._thread.plans) <= 2
    assert len(host_cudnn.graphs) == 4


def test_each_stream_device_and_thread(gpu):
    x, weight = values((2, 3, 5, 5)), values((4, 3, 3, 3))
    expected = kernels_conv.convolution(x.astype(float), weight.astype(float))

    def run(device: int = 0) -> None:
        with gpu.cupy.cuda.Device(device):
            same(gpu.dnn.convolution(gpu.cupy.asarray(x), gpu.cupy.asarray(weight)), expected, DTYPES["float32"])

    stream = gpu.cupy.cuda.Stream()
    run()
    with stream:
        run()
    assert [one for _, one in runs()] == [0, stream.ptr] and len(host_cudnn.graphs) == 1
    run(1)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(host_cudnn.graphs) == 3 and len({id(graph.handle) for graph in host_cudnn.graphs}) == 3 and len(runs()) == 4


# -- switches ----------------------------------------------------------------------------------------------------------------


def convolved(gpu: Any, dtype: str = "float32") -> Any:
    return gpu.dnn.convolution(gpu.cupy.asarray(values((2, 64, 5, 5), dtype)), gpu.cupy.asarray(values((4, 64, 3, 3), dtype)))


def error(gpu: Any) -> float:
    """The largest error of a convolution in float32, relative to the largest result."""
    exact = kernels_conv.convolution(values((2, 64, 5, 5)).astype(float), values((4, 64, 3, 3)).astype(float))
    return float(abs(convolved(gpu).get() - exact).max() / abs(exact).max())


def test_tf32_is_used_as_the_switch_says(gpu, monkeypatch):
    assert error(gpu) < 1e-7
    monkeypatch.setattr(switches, "allow_tf32", True)
    assert 1e-5 < error(gpu) < 1e-3  # 10 bits; bfloat16's 7 would give 4e-3
    monkeypatch.setattr(switches, "fp32_precision", "ieee")
    assert error(gpu) < 1e-7
    monkeypatch.setattr(switches, "allow_tf32", False)
    monkeypatch.setattr(switches, "fp32_precision", "tf32")
    assert error(gpu) > 1e-5


def test_half_precision_uses_tensor_cores_whatever_the_switch_says(gpu):
    convolved(gpu, "float16")
    assert runs()[0][0] == "atomics"


def test_deterministic_plans_give_the_same_bits(gpu, monkeypatch):
    monkeypatch.setattr(switches, "allow_tf32", True)
    assert convolved(gpu).get().tobytes() != convolved(gpu).get().tobytes()
    monkeypatch.setattr(switches, "deterministic", True)
    assert convolved(gpu).get().tobytes() == convolved(gpu).get().tobytes()
    monkeypatch.setattr(switches, "deterministic", False)
    engine.use_deterministic_algorithms(True)
    try:
        assert convolved(gpu).get().tobytes() == convolved(gpu).get().tobytes()
    finally:
        engine.use_deterministic_algorithms(False)
    assert [name for name, _ in runs()] == ["atomics"] * 2 + ["tensor"] * 4


def test_without_cudnn_enabled(gpu):
    with switches.flags(enabled=False):
        assert error(gpu) < 1e-6 and not host_cudnn.graphs


def test_benchmark_keeps_the_fastest_plan(gpu, monkeypatch):
    monkeypatch.setattr(switches, "benchmark", True)
    monkeypatch.setattr(host_cudnn, "delay", 0.1)
    convolved(gpu)
    convolved(gpu)
    assert [name for name, _ in runs()] == ["slow"] * 2 + ["fast"] * 2 + ["slower"] * 2 + ["fast"] * 2


def test_benchmark_times_as_many_plans_as_its_limit(gpu, monkeypatch):
    monkeypatch.setattr(switches, "benchmark", True)
    monkeypatch.setattr(host_cudnn, "delay", 0.1)
    monkeypatch.setattr(switches, "benchmark_limit", 1)
    convolved(gpu)
    assert [name for name, _ in runs()] == ["slow"] * 3


def test_benchmark_passes_over_plans_without_room_for_their_workspace(gpu, monkeypatch):
    monkeypatch.setattr(switches, "benchmark", True)
    monkeypatch.setattr(
        host_cudnn.pygraph, "get_workspace_size", lambda self: 1 << (60 if list(host_cudnn.PLANS)[self.plan] == "slow" else 9)
    )
    assert error(gpu) < 1e-7 and runs() and "slow" not in [name for name, _ in runs()]


def test_benchmark_does_not_wait_in_a_capture(gpu, monkeypatch):
    monkeypatch.setattr(switches, "benchmark", True)
    monkeypatch.setattr(host_cudnn, "delay", 0.1)
    x, weight = (gpu.cupy.asarray(values(shape)) for shape in ((2, 64, 5, 5), (4, 64, 3, 3)))
    with gpu.cupy.cuda.Stream() as stream:
        stream.begin_capture()
        syncs.found.clear()
        out = gpu.dnn.convolution(x, weight)
        assert [name for name, _ in runs()] == ["slow"] and syncs.found == []
        stream.end_capture()
    convolved(gpu)
    assert runs()[-1][0] == "fast" and out.shape == (2, 4, 3, 3)


def test_the_version_is_cudnns(gpu):
    assert switches.is_available() and switches.version() == 92800


# -- without cuDNN, and what it does not take ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_other_dtypes_are_composed(gpu, dtype):
    x, weight = values((2, 3, 5, 5), dtype), values((4, 3, 3, 3), dtype)
    found = gpu.dnn.convolution(gpu.cupy.asarray(x), gpu.cupy.asarray(weight))
    numpy.testing.assert_allclose(found.get(), kernels_conv.convolution(x, weight), rtol=1e-5)
    assert not host_cudnn.graphs


def test_empty_arrays_and_wrong_shapes_are_answered_as_on_the_cpu(gpu):
    empty, weight = gpu.cupy.zeros((0, 3, 5, 5), "f"), gpu.cupy.zeros((4, 3, 3, 3), "f")
    out = gpu.dnn.convolution(empty, weight, bias=gpu.cupy.zeros(4, "f"))
    assert out.shape == (0, 4, 3, 3)
    assert gpu.dnn.convolution_weight(out, empty, weight.shape).get().tolist() == numpy.zeros((4, 3, 3, 3)).tolist()
    for x, w in (((2, 4, 5, 5), (4, 3, 3, 3)), ((5, 5), (4, 3, 3, 3)), ((2, 3, 2, 2), (4, 3, 3, 3)), ((2, 3, 5, 5, 5), (4, 3, 3, 3))):
        with pytest.raises(Refused) as expected:
            kernels_conv.convolution(numpy.zeros(x, "f"), numpy.zeros(w, "f"))
        with pytest.raises(Refused) as refused:
            gpu.dnn.convolution(gpu.cupy.zeros(x, "f"), gpu.cupy.zeros(w, "f"))
        assert str(refused.value) == str(expected.value)
    assert not host_cudnn.graphs


def test_a_transposed_convolution_with_room_for_another_window_is_composed(gpu):
    layer, x = engine.nn.ConvTranspose2d(2, 3, 2, stride=1, dilation=3, output_padding=2), engine.tensor(values((1, 2, 4, 4)))
    expected = layer(x)
    engine.testing.assert_close(layer.cuda()(x.cuda()).cpu(), expected)
    assert not host_cudnn.graphs


def test_what_cudnn_refuses_is_composed_with_one_warning(gpu, monkeypatch):
    def refuse(self: Any) -> None:
        raise host_cudnn.cudnnGraphNotSupportedError("No valid engine configs\nfor ConvFwd")

    monkeypatch.setattr(host_cudnn.pygraph, "check_support", refuse)
    with pytest.warns(RuntimeWarning, match=r"fprop of float32 .*\(4, 64, 3, 3\).*No valid engine configs$") as told:
        assert error(gpu) < 1e-6 and error(gpu) < 1e-6
    assert len(told) == 1


@pytest.mark.parametrize("broken", ["frontend", "library"])
def test_a_missing_cudnn_is_warned_of_once(gpu, monkeypatch, broken):
    if broken == "frontend":
        monkeypatch.setitem(sys.modules, "cudnn", None)
    else:
        monkeypatch.setattr(host_cudnn, "backend_version", lambda: (_ for _ in ()).throw(RuntimeError("Unable to find cudnnGetVersion")))
    switches.library.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="cuDNN cannot be used: .*cudnn") as told:
            assert error(gpu) < 1e-6
            convolved(gpu, "float16")
        assert len(told) == 1 and not host_cudnn.graphs and not switches.is_available() and switches.version() is None
    finally:
        switches.library.cache_clear()


def test_an_error_of_an_execution_is_raised(gpu, monkeypatch):
    monkeypatch.setattr(host_cudnn.pygraph, "execute", lambda *a, **k: (_ for _ in ()).throw(RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")))
    with pytest.raises(RuntimeError, match="EXECUTION_FAILED"):
        convolved(gpu)


# -- the stand-in itself -----------------------------------------------------------------------------------------------------


def planted(name: str, change: Any) -> Any:
    """A method of the stand-in's graph, called with other arguments."""
    method = getattr(host_cudnn.pygraph, name)
    return lambda self, *args, **kwargs: method(self, *change(args)[0], **{**kwargs, **change(args)[1]})


FAULTS = {
    "a wrong padding": ("conv_fprop", lambda a: (a, {"pre_padding": [0, 1], "post_padding": [2, 1]})),
    "a wrong stride of the convolution": ("conv_fprop", lambda a: (a, {"stride": [2, 1]})),
    "a wrong dilation": ("conv_fprop", lambda a: (a, {"dilation": [1, 2]})),
    "a missing pointer": ("execute", lambda a: (({uid: p for uid, p in a[0].items() if uid != 2}, a[1]), {})),
    "swapped pointers": ("execute", lambda a: (({1: a[0][2], 2: a[0][1], 3: a[0][3]}, a[1]), {})),
    "a pointer with an offset": ("execute", lambda a: (({**a[0], 1: a[0][1] + 16}, a[1]), {})),
    "a misaligned pointer": ("execute", lambda a: (({**a[0], 1: a[0][1] + 4}, a[1]), {})),
    "no workspace": ("execute", lambda a: ((a[0], 0), {})),
}


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_noticed(gpu, monkeypatch, what):
    name, change = FAULTS[what]
    monkeypatch.setattr(host_cudnn.pygraph, name, planted(name, change))
    x, weight = values((2, 3, 5, 5)), values((3, 3, 3, 3))
    expected = kernels_conv.convolution(x.astype(float), weight.astype(float), 1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = gpu.dnn.convolution(gpu.cupy.asarray(x), gpu.cupy.asarray(weight), 1, 1)
        except (RuntimeError, RuntimeWarning, ValueError):
            return
    assert not numpy.allclose(found.get(), expected, rtol=1e-3)


def test_strides_that_are_not_those_of_the_memory_are_noticed(gpu, monkeypatch):
    of = gpu.dnn.strides_of
    monkeypatch.setattr(gpu.dnn, "strides_of", lambda shape, axes: of(shape, (0, 1, 3, 2)))
    with pytest.warns(RuntimeWarning, match="LAYOUT"):
        convolved(gpu)
    gpu.dnn._thread.plans.clear()
    monkeypatch.setattr(gpu.dnn, "strides_of", lambda shape, axes: of(shape, (0, 2, 3, 1)))
    assert error(gpu) > 0.1


# -- the real library ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: Any) -> dict[str, Any]:
    """What `real_cudnn.py` found, with a driver that has no devices."""
    frontend, libraries = importlib.util.find_spec("cudnn"), importlib.util.find_spec("nvidia.cudnn")
    if frontend is None or libraries is None:
        pytest.skip("nvidia-cudnn-frontend and nvidia-cudnn-cu12, of 1.5 GB, are not installed")
    if shutil.which("gcc") is None:
        pytest.skip("there is no compiler for the driver's stub")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", folder / "libcuda.so.1", HERE / "stub_cuda.c"], check=True)
    packages = Path(libraries.submodule_search_locations[0]).parent
    path = [folder, *packages.glob("*/lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, path)), "CUDNN_FRONTEND_CUDART_LIB_NAME": "libcuda.so.1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, HERE / "real_cudnn.py"], env=os.environ | environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_cudnn_plans_every_kind_of_graph(real):
    assert not real["refused"]
    assert len(real["planned"]) > 400 and all(workspace >= 0 for workspace in real["planned"].values())


def test_cudnn_plans_attention(real):
    assert not real["refused attentions"]
    assert len(real["attentions"]) == 70 and all(workspace >= 0 for workspace in real["attentions"].values())


def test_cudnn_refuses_wrong_graphs(real):
    names = {"channels", "size of the result", "groups", "attention, keys", "attention, heads", "attention, width"}
    assert set(real["wrong"]) == names and all(real["wrong"].values())


def test_the_stand_in_has_the_real_names_and_parameters(real):
    names = [*inspect.signature(host_cudnn.pygraph.tensor).parameters]
    assert [name for name in real["parameters"]["tensor"] if name in names] == names  # in this order; the real one has more
    assert real["parameters"]["execute"][2:4] == ["workspace", "handle"]  # what is before has had several names
    for name in ("data_type", "heur_mode", "numerical_note"):
        assert {one.name for one in getattr(host_cudnn, name)} <= set(real["members"][name])
