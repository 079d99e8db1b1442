"""Softmax, cross-entropy and normalization by CUDA kernels, on the emulator."""

from __future__ import annotations

import math
import re

import numpy
import pytest
from fake_cupy import BF16, EPS, F16, F32, F64, FLOATS, emulated, wide

from engine.backends import kernels_loss, kernels_norm, reduction
from engine.backends.gpu import launch, reduce, rows

pytestmark = pytest.mark.slow  # a text that is new takes a second to build

COMPUTED = {F16: F32, BF16: F32, F32: F32, F64: F64}
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)

# along contiguous rows, short and long, held in registers or not, in vectors or not; and along other axes
SHAPES = [
    ((), 0), ((1,), 0), ((5,), -1), ((3, 1), 1), ((40, 10), 1), ((5, 33), 1), ((4, 128), 1), ((3, 1000), 1), ((2, 4099), 1), ((2, 12288), 1),
    ((300, 16), 1), ((33, 5), 0), ((1000, 3), 0), ((4, 21, 50), 1), ((2, 3, 4, 5), 1), ((17, 1, 4), 1), ((3, 300, 1), 1),
]  # fmt: skip


@pytest.fixture
def device(monkeypatch):
    made = emulated(monkeypatch, rows, reduce)
    yield made
    assert made.intact()


def draw(shape, dtype, seed=0, scale=1.0):
    return (numpy.random.default_rng((seed, *shape)).normal(0, scale, shape)).astype(dtype)


def orders(device, call):
    """The results of a call, with the same bits in three orders of threads and blocks."""
    results = []
    for seed in range(3):
        device.order(seed)
        found = call()
        results.append([numpy.asarray(a) for a in (found if isinstance(found, tuple) else (found,))])
    for others in results[1:]:
        assert [a.tobytes() for a in others] == [a.tobytes() for a in results[0]], "the result depends on the order of threads"
    return results[0]


def close(found, want, dtype, times=8.0, scale=1.0):
    """Agreement up to the rounding of the result and `times` roundings of the arithmetic, relative to `want` and to `scale`."""
    assert found.dtype == dtype and found.shape == want.shape
    with numpy.errstate(invalid="ignore"):
        bound = (EPS[dtype] + times * EPS[COMPUTED[dtype]]) * (numpy.abs(want) + scale)
        assert numpy.all((numpy.abs(wide(found) - want) <= bound) | (numpy.isnan(want) & numpy.isnan(wide(found))) | (wide(found) == want))


# -- softmax and cross-entropy -----------------------------------------------------------------------------------------------


@each_float
def test_softmax(dtype, device):
    for shape, axis in SHAPES:
        x = draw(shape, dtype, scale=5)
        if x.size > 5:
            x.reshape(-1)[1] = -math.inf
        (found,) = orders(device, lambda x=x, axis=axis: rows.softmax(device.array(x), axis))
        close(found, reduction.softmax(wide(x), axis), dtype, scale=0.1)
        (found,) = orders(device, lambda x=x, axis=axis: rows.log_softmax(device.array(x), axis))
        close(found, reduction.log_softmax(wide(x), axis), dtype)


@each_float
def test_gradients_of_softmax(dtype, device):
    for shape, axis in SHAPES:
        g = draw(shape, dtype, 1)
        y = reduction.softmax(draw(shape, F64, 2), axis).astype(dtype)
        (found,) = orders(device, lambda g=g, y=y, axis=axis: rows.softmax_back(device.array(g), device.array(y), axis))
        close(found, wide(y) * (wide(g) - (wide(g) * wide(y)).sum(axis if shape else None, keepdims=True)), dtype)
        z = reduction.log_softmax(draw(shape, F64, 2), axis).astype(dtype)
        (found,) = orders(device, lambda g=g, z=z, axis=axis: rows.log_softmax_back(device.array(g), device.array(z), axis))
        total = wide(g).sum(axis if shape else None, keepdims=True)
        close(found, wide(g) - numpy.exp(wide(z)) * total, dtype, scale=1 + numpy.abs(wide(g)).sum() / 100)


def test_softmax_of_what_is_not_finite(device):
    x = numpy.array([[-math.inf] * 3, [math.inf, 0, 1], [math.nan, 0, 1], [-math.inf, 0, 1], [3e38, -3e38, 3e38]], F32)
    for few in (x, numpy.repeat(x, 100, 1)):
        for name in ("softmax", "log_softmax"):
            with numpy.errstate(all="ignore"):
                want = getattr(reduction, name)(wide(few), 1).astype(F32)
            numpy.testing.assert_allclose(getattr(rows, name)(device.array(few), 1), want, rtol=1e-6)
            numpy.testing.assert_allclose(getattr(rows, name)(device.array(few).T, 0).T, want, rtol=1e-6)


def test_softmax_of_any_strides(device):
    whole = device.array(draw((6, 9, 20), F32))
    for x in (whole.transpose(2, 0, 1), whole[:, ::2], whole[..., 3:], device.array(draw((4, 64), F32), offset=1)):
        for axis in range(x.ndim):
            close(numpy.asarray(rows.softmax(x, axis)), reduction.softmax(wide(x), axis), F32)
    assert rows.softmax(device.empty((0, 3), F32), 1).shape == (0, 3)
    with pytest.raises(numpy.exceptions.AxisError):
        rows.softmax(whole, 3)


@each_float
def test_cross_entropy(dtype, device):
    for shape in ((7,), (4, 10), (3, 1000), (2, 5, 6), (2, 3, 4, 5), (300, 4), (2, 9000)):
        axis, x = min(len(shape) - 1, 1), draw(shape, dtype, scale=3)
        (lse,) = orders(device, lambda x=x: rows.log_sum_exp(device.array(x)))
        want = kernels_loss.log_sum_exp(wide(x))
        close(lse, want, COMPUTED[dtype])
        places = shape[:axis] + shape[axis + 1 :]
        scale, g = draw(places, COMPUTED[dtype], 1), draw(places, COMPUTED[dtype], 2)
        for kind in ("i8", "u1"):
            target = numpy.random.default_rng(3).integers(0, min(shape[axis], 200), places).astype(kind)
            target.reshape(-1)[-1] = ignore = shape[axis] - 1 if kind == "u1" and shape[axis] < 256 else (-100 if kind == "i8" else 255)
            arguments = [device.array(a) for a in (x, lse, scale, g, target)]
            (found,) = orders(device, lambda arguments=arguments, ignore=ignore: rows.softmax_minus(*arguments, ignore))
            close(found, kernels_loss.softmax_minus(*[wide(a) for a in (x, lse, scale, g)], target, ignore), dtype, times=100)
    with pytest.raises(ValueError, match="zero-size"):
        rows.log_sum_exp(device.empty((3, 0), F32))
    spread = numpy.broadcast_to(device.array(numpy.ones((), F32)), (4,)).view(type(device.array(x)))  # as the gradient of a sum is
    x, target = device.array(draw((4, 10), F32)), device.array(numpy.arange(4))
    found = rows.softmax_minus(x, rows.log_sum_exp(x), spread, spread, target, -100)
    assert numpy.allclose(found, reduction.softmax(wide(x), 1) - numpy.eye(4, 10), atol=1e-6)


# -- normalization -----------------------------------------------------------------------------------------------------------

# shape, axes, shape of the weight: layer, batch, group and instance norm, and one that no kernel has at once
NORMS = [
    ((6, 5), (1,), (5,)), ((3, 1000), (1,), (1000,)), ((2, 3, 4), (1, 2), (3, 4)), ((2, 9001), (1,), None), ((40, 16), (1,), (16,)), ((7,), (0,), (7,)),
    ((4, 3, 5, 5), (0, 2, 3), (1, 3, 1, 1)), ((4, 8, 4, 4), (0, 2, 3), (1, 8, 1, 1)), ((50, 12), (0,), (1, 12)), ((640, 64), (0,), (1, 64)),
    ((2, 4, 30), (2,), None), ((1, 6, 40), (0, 2), (1, 6, 1)), ((2, 3, 700), (1,), None), ((5, 6, 7), (1, 2), (5, 1, 1)), ((2, 70000), (1,), (70000,)),
    ((3, 4, 5, 6), (0, 2), None), ((30, 3, 8), (0, 2), (1, 3, 1)),
]  # fmt: skip


def arrays_of(shape, axes, weight, dtype):
    x = (draw(shape, F64) * 2 + 3).astype(dtype)
    kind = F32 if dtype == BF16 else dtype  # float32 weights beside half precision, or its own
    w, b = (None, None) if weight is None else (draw(weight, kind, 1) + kind.type(1), draw(weight, kind, 2))
    return x, draw(shape, dtype, 3), w, b


def on_device(device, *arrays):
    return [None if a is None else device.array(a) for a in arrays]


def doubles(*arrays):
    return [None if a is None else wide(a) for a in arrays]


@each_float
def test_normalize(dtype, device):
    for shape, axes, weight in NORMS:
        x, _, w, b = arrays_of(shape, axes, weight, dtype)
        if reduce.form(shape, axes) is None and dtype not in (F32, F64):
            continue  # NumPy's functions take it
        given = on_device(device, x, w, b)
        out, mean, rstd = orders(device, lambda a=given, axes=axes: rows.normalize(a[0], axes, 1e-5, *a[1:]))
        want, middle, r = kernels_norm.normalize(wide(x), axes, 1e-5, *doubles(w, b))
        apart = weight is not None and axes[-1] == len(shape) - 1 and weight[-1] == 1  # multiplied and added apart: three roundings
        close(out, want, dtype, times=40, scale=20 if apart else 4)
        close(mean, middle, COMPUTED[dtype], scale=5)
        close(rstd, r, COMPUTED[dtype], times=40)


@each_float
def test_gradients_of_normalize(dtype, device):
    for shape, axes, weight in NORMS:
        x, g, w, _ = arrays_of(shape, axes, weight, dtype)
        if reduce.form(shape, axes) is None and dtype not in (F32, F64):
            continue  # NumPy's functions take it
        exact = kernels_norm.normalize(wide(x), axes, 1e-5)[1:]
        given = on_device(device, g, x, *[a.astype(COMPUTED[dtype]) for a in exact])
        beside = None if w is None else device.array(w)
        (found,) = orders(device, lambda a=given, axes=axes, w=beside: rows.normalize_input(*a, axes, w))
        want = kernels_norm.normalize_input(wide(g), wide(x), *exact, axes, *doubles(w))
        close(found, want, dtype, times=100, scale=numpy.abs(want).max() * (8 if dtype in (F16, BF16) and weight else 1))
        # a weight for each place of a row is summed over the rows, one for each statistic over what it is the statistic of
        for summed in (axes, tuple(d for d in range(len(shape)) if d not in axes)):
            (found,) = orders(device, lambda a=given, summed=summed: rows.normalize_weight(*a, summed))
            want = (wide(g) * (wide(x) - exact[0]) * exact[1]).sum(summed)
            close(
                found, want, COMPUTED[dtype], scale=(numpy.abs(wide(g)) * (numpy.abs(wide(x)) + numpy.abs(exact[0])) * exact[1]).sum(summed)
            )


@each_float
def test_batch_norm_of_channels_last(dtype, device, monkeypatch):
    """Read and written in its own order, without a copy."""
    for shape in ((3, 8, 5, 4), (2, 5, 7, 6), (2, 3, 2, 4, 5)):
        axes, last = (0, *range(2, len(shape))), (0, *range(2, len(shape)), 1)
        back = numpy.argsort(last)
        x, g = ((draw([shape[d] for d in last], dtype, seed) + dtype.type(1)).transpose(back) for seed in (1, 2))
        w, b = (draw((1, shape[1]) + (1,) * (len(shape) - 2), COMPUTED[dtype], seed) for seed in (3, 4))
        a, d = (device.array(y.transpose(last)).transpose(back) for y in (x, g))
        weight, bias = on_device(device, w, b)
        with monkeypatch.context() as patch:
            patch.setattr(device, "array", lambda *a, **k: pytest.fail("copied"))
            out, mean, rstd = orders(device, lambda a=a, axes=axes, w=weight, b=bias: rows.normalize(a, axes, 1e-5, w, b))
            made = rows.normalize(a, axes, 1e-5, weight, bias)
            slope = rows.normalize_input(d, a, *made[1:], axes, weight)
            total = rows.normalize_weight(d, a, *made[1:], axes)
        assert made[0].strides == a.strides and slope.strides == a.strides
        want, middle, r = kernels_norm.normalize(wide(x), axes, 1e-5, *doubles(w, b))
        close(out, want, dtype, times=40, scale=4)
        close(mean, middle, COMPUTED[dtype], scale=5)
        close(rstd, r, COMPUTED[dtype], times=40)
        want = kernels_norm.normalize_input(wide(g), wide(x), middle, r, axes, wide(w))
        close(numpy.asarray(slope), want, dtype, times=100, scale=numpy.abs(want).max() * (8 if dtype in (F16, BF16) else 1))
        close(numpy.asarray(total), kernels_norm.normalize_weight(wide(g), wide(x), middle, r, axes), COMPUTED[dtype], scale=200)


def test_statistics_far_from_zero(device):
    """The mean is 10,000 times the deviation: its rounding must not show."""
    for shape, axes in (((4, 1000), (1,)), ((20, 3, 50), (0, 2)), ((1000, 6), (0,)), ((3, 6, 50), (1,))):
        x, g = (10000 + draw(shape, F64)).astype(F32), draw(shape, F32, 1)
        a, b = on_device(device, x, g)
        out, mean, rstd = rows.normalize(a, axes, 1e-5)
        want, *_, r = kernels_norm.normalize(wide(x), axes, 1e-5)
        assert numpy.abs(out - want).max() < 2e-5 and numpy.abs(rstd / r - 1).max() < 2e-5
        slope = kernels_norm.normalize_input(wide(g), wide(x), wide(mean), wide(rstd), axes)
        assert numpy.abs(rows.normalize_input(b, a, mean, rstd, axes) - slope).max() < 1e-4


def test_normalize_views_and_nothing(device):
    whole = device.array(draw((6, 8, 20), F32))
    for x in (whole.transpose(2, 0, 1), whole[..., 3:], whole[:, ::2]):
        for axes in ((2,), (0, 2), (0,), (1, 2)):
            close(numpy.asarray(rows.normalize(x, axes, 1e-5)[0]), kernels_norm.normalize(wide(x), axes, 1e-5)[0], F32, times=40, scale=4)
    constant = device.array(numpy.full((3, 40), 0.1, F32))
    out, _, rstd = rows.normalize(constant, (1,), 1e-5)
    assert numpy.abs(out).max() < 1e-4 and numpy.allclose(rstd, 1e-5**-0.5)
    assert rows.normalize(numpy.zeros((0, 3), F32), (1,), 1e-5)[0].shape == (0, 3)


# -- the compiler, and faults that the tests must find --------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
@each_float
def test_the_compiler_takes_every_text(dtype, arch):
    ptx = launch.compiled(launch.source("rows.cu", T=launch.TYPES[dtype.name]), arch).decode()
    kernels = re.findall(r"\.entry (\w+)\((.*?)\n\}", ptx, re.DOTALL)
    assert len(kernels) == 10
    for name, text in kernels:
        vectors = 2 if dtype == F64 else 4
        assert len(re.findall(rf"ld\.global[.\w]*\.v{vectors}", text)) >= 4, name  # those that a thread holds
        assert name == "log_sum_exp" or re.search(rf"st\.global[.\w]*\.v{vectors}", text), name


FAULTS = {
    "no barrier before a result is merged": ("      __syncthreads();\n      if (thread < s)", "      if (thread < s)"),
    "no barrier before it is read": ("    __syncthreads();\n    return shared", "    return shared"),
    "no barrier before the next use": ("    __syncthreads();  // the last result has been read\n", ""),
    "a barrier that some never reach": ("    __syncthreads();\n    return shared", "    if (cols > 0) __syncthreads();\n    return shared"),
    "writing past the end": ("j < at.cols; j +=", "j <= at.cols; j +="),
    "another row's result": ("shared[threadIdx.x - lane * side]", "shared[0]"),
    "a wrong stride": ("start + j * step", "start + j"),
    "rows interleaved otherwise": ("row / inner * cols * inner + row % inner", "row"),
    "elements that are not held": ("place(HELD); j < at.cols", "place(HELD + 1); j < at.cols"),
    "a wrong neutral element": ("C top = -INFINITY", "C top = 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault, device, monkeypatch):
    right, wrong = FAULTS[fault]
    text = launch.source("rows.cu", T="float")
    assert text.count(right) == 1
    monkeypatch.setattr(rows, "_kernel", lambda name, dtype: launch.Kernel(text.replace(right, wrong), name))
    with pytest.raises((AssertionError, RuntimeError)):
        for shape, axis in (
            SHAPES if "held" in fault or "end" in fault else [s for s in SHAPES if math.prod(s[0]) <= 1000]
        ):  # within the guards
            x = draw(shape, F32, scale=5) - F32.type(100)
            (found,) = orders(device, lambda x=x, axis=axis: rows.softmax(device.array(x), axis))
            close(found, reduction.softmax(wide(x), axis), F32, scale=0.1)
            if not device.intact():
                device.guards.clear()
                raise AssertionError("written outside of an array")
