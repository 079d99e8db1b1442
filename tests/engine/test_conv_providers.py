"""Convolutions by NumPy and by oneDNN, on the same arrays: both against sums over the elements of the kernel in float64."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import threading
import tracemalloc

import numpy
import pytest

import engine
from engine.backends import cpu, dnn, mkldnn, onednn
from engine.nn import functional as F
from grouping import grouped

RNG = numpy.random.default_rng(0)


@pytest.fixture(params=["numpy", "onednn"])
def provider(request, monkeypatch):
    """Each provider in turn, for convolutions of any size."""
    monkeypatch.setattr(mkldnn, "enabled", request.param == "onednn")
    monkeypatch.setattr(dnn, "_LEAST", 0)
    monkeypatch.setattr(dnn, "_plans", onednn.Plans())
    if request.param == "onednn" and not mkldnn.is_available():
        pytest.skip("needs the extra `fast`")
    return request.param


onednn_only = pytest.mark.parametrize("provider", ["onednn"], indirect=True)


def used(provider: str) -> bool:
    """Whether it was this provider that computed."""
    return any(dnn._plans.made.values()) == (provider == "onednn")


def plain(x, w, stride, pads, dilation, groups, g=None):
    """Convolution in float64, and its gradients if there is a `g`."""
    x, w = x.astype(float), w.astype(float).reshape(groups, len(w) // groups, *w.shape[1:])
    x = numpy.pad(x, [(0, 0), (0, 0), *pads])
    size = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(x.shape[2:], w.shape[3:], stride, dilation, strict=True)]
    x = x.reshape(len(x), groups, -1, *x.shape[2:])
    out, dx, dw = numpy.zeros((len(x), groups, w.shape[1], *size)), numpy.zeros_like(x), numpy.zeros_like(w)
    g = g if g is None else g.astype(float).reshape(out.shape)
    for tap in itertools.product(*map(range, w.shape[3:])):
        at = (..., *[slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilation, size, stride, strict=True)])
        out += numpy.einsum("zgi...,goi->zgo...", x[at], w[(..., *tap)])
        if g is not None:
            dx[at] += numpy.einsum("zgo...,goi->zgi...", g, w[(..., *tap)])
            dw[(..., *tap)] = numpy.einsum("zgop,zgip->goi", *[a.reshape(*a.shape[:3], -1) for a in (g, x[at])])
    merged = lambda a: a.reshape(len(a), -1, *a.shape[3:])  # noqa: E731
    inside = (..., *[slice(before, -after or None) for before, after in pads])
    return merged(out), merged(dx)[inside], dw.reshape(-1, *dw.shape[2:])


def compare(x, w, g, stride, padding, dilation, groups, bias=None):
    """All three functions against `plain`."""
    n = w.ndim - 2
    spans = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    pads = [(s // 2, s - s // 2) for s in spans] if padding == "same" else [(p, p) for p in padding]
    out, dx, dw = plain(x, w, stride, pads, dilation, groups, g)
    rest = (stride, padding, dilation, groups)
    found = cpu.convolution(x, w, *rest, bias), cpu.convolution_input(g, w, x.shape, *rest), cpu.convolution_weight(g, x, w.shape, *rest)
    if bias is not None:
        out = out + bias.reshape(-1, *(1,) * n)
    for name, a, b in zip(("forward", "input", "weight"), found, (out, dx, dw), strict=True):
        assert a.shape == b.shape and a.dtype == x.dtype, name
        assert numpy.allclose(a, b, rtol=1e-4, atol=1e-5 * max(1, abs(b).max())), (name, x.shape, w.shape, rest)


def drawn(rng) -> tuple:
    """A convolution of one to three dimensions: its arrays and settings."""
    n, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    inputs, outputs = (int(v) for v in rng.integers(1, 10, 2))
    if rng.random() < 0.3:  # depthwise
        groups, inputs, outputs = inputs * groups, 1, int(rng.integers(1, 3))
    kernel, stride, dilation = (tuple(map(int, rng.integers(1, high, n))) for high in (5, 4, 3))
    padding = tuple(map(int, rng.integers(0, 3, n)))
    if rng.random() < 0.3:
        stride, padding = (1,) * n, "same"
    size = [d * (k - 1) + 1 + int(rng.integers(0, 9)) for d, k in zip(dilation, kernel, strict=True)]
    x = rng.standard_normal((int(rng.integers(1, 4)), inputs * groups, *size), numpy.float32)
    w = rng.standard_normal((outputs * groups, inputs, *kernel), numpy.float32)
    b = rng.standard_normal(len(w), numpy.float32) if rng.random() < 0.5 else None
    x, w = (numpy.moveaxis(numpy.moveaxis(a, 1, -1).copy(), -1, 1) if rng.random() < 0.3 else a for a in (x, w))
    return x, w, b, (stride, padding, dilation, groups)


def compare_drawn(count: int) -> None:
    for seed in range(count):
        rng = numpy.random.default_rng(seed)
        x, w, b, settings = drawn(rng)
        g = rng.standard_normal(cpu.convolution(x, w, *settings).shape, numpy.float32)
        compare(x, w, g, *settings, bias=b)


def test_random_settings(provider):
    compare_drawn(40)
    assert used(provider)


@pytest.mark.long
def test_many_random_settings(provider):
    compare_drawn(500)


def misaligned(a):
    memory = numpy.empty(a.nbytes + 1, numpy.uint8)[1:].view(a.dtype).reshape(a.shape)
    memory[...] = a
    return memory


def frozen(a):
    a = a.copy()
    a.flags.writeable = False
    return a


ARRAYS = {
    "transposed": lambda a: a.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "batch innermost": lambda a: numpy.moveaxis(numpy.moveaxis(a, 0, -1).copy(), -1, 0),
    "reversed": lambda a: a[:, ::-1, ::-1, ::-1],
    "a slice": lambda a: numpy.repeat(a, 2, 3)[..., ::2],
    "channels of a wider image": lambda a: numpy.repeat(a, 2, 1)[:, ::2],
    "repeated": lambda a: numpy.broadcast_to(a[:1, :, :1], a.shape),
    "overlapping": lambda a: numpy.lib.stride_tricks.as_strided(a, a.shape, (4 * a.shape[1], 4, 8, 4)),
    "misaligned": misaligned,
    "read-only": frozen,
    "channels last": lambda a: numpy.moveaxis(numpy.moveaxis(a, 1, -1).copy(), -1, 1),
}


@pytest.mark.parametrize("operand", range(3))
def test_arrays_of_any_layout(provider, operand):
    settings = ((1, 1), (1, 1), (1, 1), 1)
    arrays = [RNG.standard_normal(shape, numpy.float32) for shape in ((3, 8, 6, 6), (8, 8, 3, 3), (3, 8, 6, 6))]
    for laid in ARRAYS.values():
        compare(*[laid(a) if i == operand else a for i, a in enumerate(arrays)], *settings)
    assert used(provider)


def test_results_lie_as_those_of_pytorch(provider):
    x, w = engine.randn(2, 8, 6, 5), engine.randn(4, 8, 3, 3)
    last = x.to(memory_format=engine.channels_last)
    for weight in (w, w.to(memory_format=engine.channels_last)):
        assert F.conv2d(x, weight).stride() == (48, 12, 3, 1) and F.conv2d(last, weight).stride() == (48, 1, 12, 4)
        assert F.conv2d(x[0], weight).stride() == (12, 3, 1)
    assert F.conv3d(engine.randn(2, 3, 4, 4, 4).to(memory_format=engine.channels_last_3d), engine.randn(5, 3, 1, 1, 1)).is_contiguous()
    assert F.conv1d(engine.randn(2, 3, 9).swapaxes(1, 2).contiguous().swapaxes(1, 2), engine.randn(4, 3, 2)).is_contiguous()
    assert used(provider)


def test_images_without_a_batch_and_empty_ones(provider):
    x, w, b = engine.randn(4, 6, 6), engine.randn(5, 4, 3, 3), engine.randn(5)
    assert engine.equal(F.conv2d(x, w, b), F.conv2d(x[None], w, b)[0]) and used(provider)
    assert F.conv2d(engine.ones(0, 4, 6, 6), w, b).shape == (0, 5, 4, 4)
    assert F.conv2d(engine.ones(2, 0, 6, 6), engine.ones(5, 0, 3, 3)).count_nonzero() == 0
    assert F.conv_transpose2d(engine.ones(0, 5, 4, 4), w).shape == (0, 4, 6, 6)
    empty = engine.ones(0, 4, 6, 6, requires_grad=True)
    assert engine.autograd.grad(F.conv2d(empty, w).sum(), empty)[0].shape == empty.shape


def test_other_dtypes(provider):
    """float64 is as precise as ever; half precision is computed in float32 and rounded."""
    x, w = engine.randn(2, 8, 9, 9, dtype=engine.float64), engine.randn(8, 8, 3, 3, dtype=engine.float64)
    out = plain(x.numpy(), w.numpy(), (1, 1), [(0, 0)] * 2, (1, 1), 1)[0]
    assert numpy.allclose(F.conv2d(x, w).numpy(), out, rtol=1e-12, atol=1e-12)
    for dtype in (engine.bfloat16, engine.float16):
        low = F.conv2d(x.to(dtype), w.to(dtype))
        assert low.dtype is dtype and engine.equal(low, F.conv2d(x.to(dtype).float(), w.to(dtype).float()).to(dtype))


@pytest.mark.parametrize("bad", [numpy.nan, numpy.inf])
def test_what_is_not_finite_stays_in_its_windows(provider, bad):
    for groups in (1, 8):
        x, w = engine.ones(2, 8, 8, 8), engine.ones(8, 8 // groups, 3, 3)
        x[1, 0, 2, 3] = bad
        expected = numpy.ones((2, 8, 8, 8), bool)
        expected[1, slice(None) if groups == 1 else 0, 1:4, 2:5] = False
        for convolved in (F.conv2d, F.conv_transpose2d):
            assert (numpy.isfinite(convolved(x, w, padding=1, groups=groups).numpy()) == expected).all()


def test_transposed_convolutions_and_gradients(provider):
    """The transpose in the image and in the weight, with output padding: <conv(x, w), g> is linear in all three."""
    for settings in ({"stride": 2, "padding": 1, "output_padding": 1}, {"stride": 3, "groups": 2}, {"dilation": 2, "padding": 2}):
        g, w = engine.randn(2, 8, 5, 5, requires_grad=True), engine.randn(8, 4, 3, 3, requires_grad=True)
        out = F.conv_transpose2d(g, w, **settings)
        seed = engine.randn(*out.shape)
        wide = F.conv_transpose2d(g.double(), w.double(), **settings)
        expected = engine.autograd.grad(wide, [g, w], seed.double())
        for found, right in zip((out, *engine.autograd.grad(out, [g, w], seed)), (wide, *expected), strict=True):
            assert engine.allclose(found.double(), right.double(), rtol=1e-4, atol=1e-4)
    assert used(provider)


def test_results_do_not_vary(provider):
    x, w = RNG.standard_normal((8, 16, 20, 20), numpy.float32), RNG.standard_normal((32, 16, 3, 3), numpy.float32)
    g = cpu.convolution(x, w)
    first, second = [(g, cpu.convolution_input(g, w, x.shape), cpu.convolution_weight(g, x, w.shape)) for _ in range(2)]
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_memory_at_the_peak(provider):
    """At most one and a half times what PyTorch takes, which copies image and result into the layout of its kernels."""
    x, w = RNG.standard_normal((16, 16, 64, 64), numpy.float32), RNG.standard_normal((16, 16, 3, 3), numpy.float32)
    for call in (lambda: cpu.convolution(x, w, 1, 1), lambda: cpu.convolution_input(x, w, x.shape, 1, 1), lambda: cpu.convolution_weight(x, x, w.shape, 1, 1)):  # fmt: skip
        call()
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 1.5 * 3 * x.nbytes


# -- oneDNN alone ------------------------------------------------------------------------------------------------------------


def small(shape=(2, 8, 6, 6)):
    return cpu.convolution(numpy.ones(shape, numpy.float32), numpy.ones((8, 8, 3, 3), numpy.float32))


@onednn_only
def test_the_switch_and_the_size(provider, monkeypatch):
    with mkldnn.flags(enabled=False):
        small()
    monkeypatch.setattr(dnn, "_LEAST", 1 << 18)
    small()
    assert not dnn._plans.made
    small((2, 8, 32, 32))
    assert len(dnn._plans.made) == 1


@onednn_only
def test_the_oldest_plans_are_dropped(provider, monkeypatch):
    monkeypatch.setattr(onednn, "_MOST", 3)
    sums = [small((n, 8, 6, 6)).sum() for n in (*range(1, 8), 1)]
    assert sums == [n * 8 * 16 * 72 for n in (*range(1, 8), 1)] and len(dnn._plans.made) == 3


@onednn_only
def test_all_threads_follow_the_count(provider):
    before, found = engine.get_num_threads(), {}

    def convolve(name):
        small()
        found[name] = (onednn.found()._c.omp_get_max_threads(), [signature.threads for signature in dnn._plans.made])

    try:
        for count in (2, 1):
            engine.set_num_threads(count)
            other = threading.Thread(target=convolve, args=("other",))
            other.start()
            other.join()
            convolve("own")
            assert found["other"] == (count, [count]) and found["own"][0] == count and found["own"][1][-1] == count
    finally:
        engine.set_num_threads(before)


@grouped(
    ("file", "words"),
    [
        ("/missing/libdnnl.so.3", "No such file|no such file"),
        (math.__spec__.origin if math.__spec__.origin != "built-in" else sys.modules["_ctypes"].__file__, "lacks a function"),
    ],
)
def test_a_library_that_cannot_be_used(file, words, monkeypatch):
    monkeypatch.setenv("GRADIENT_WORKBENCH_ONEDNN", file)
    with pytest.warns(UserWarning, match=f"oneDNN cannot be used. NumPy computes everything.*({words})"):
        assert isinstance(onednn.found.__wrapped__(), str)


@onednn_only
def test_a_library_of_another_version(provider, monkeypatch):
    monkeypatch.setattr(onednn, "_MAJOR", 4)
    with pytest.warns(UserWarning, match="version 4 is needed, and .*libdnnl.* is version 3"):
        assert "version 4 is needed" in onednn.found.__wrapped__()


def test_no_library(monkeypatch, capsys):
    monkeypatch.setenv("GRADIENT_WORKBENCH_ONEDNN", "off")
    monkeypatch.setattr(onednn, "found", onednn.found.__wrapped__)
    monkeypatch.setattr(dnn, "_LEAST", 0)
    monkeypatch.setattr(dnn, "_plans", onednn.Plans())
    assert small().sum() == 2 * 8 * 16 * 72 and used("numpy") and not mkldnn.is_available()
    engine.show_config()
    assert "NumPy; no oneDNN: switched off by GRADIENT_WORKBENCH_ONEDNN" in capsys.readouterr().out


@onednn_only
def test_the_configuration_is_told(provider):
    assert f"oneDNN {onednn.found().version} for large ones of float32" in engine.__config__.show()
    with mkldnn.flags(enabled=False):
        assert "is switched off: engine.backends.mkldnn.enabled is False" in engine.__config__.show()


@pytest.mark.slow
@onednn_only
def test_it_is_loaded_when_it_is_needed_and_works_after_a_fork(provider):
    script = """
import os, engine
from engine.backends import onednn
engine.set_num_threads(2)
convolve = lambda n: engine.nn.functional.conv2d(engine.ones(n, 16, 16, 16), engine.ones(16, 16, 3, 3)).sum().item()
convolve(1) if engine.nn.functional.conv2d(engine.ones(1, 1, 8, 8), engine.ones(1, 1, 3, 3)).sum() and onednn.found.cache_info().currsize == 0 else 1 / 0
assert onednn.found.cache_info().currsize == 1
child = os.fork()
if not child:
    os._exit(convolve(2) != 2 * convolve(1))
assert os.waitpid(child, 0)[1] == 0 and convolve(2) == 2 * convolve(1)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
