"""Pools by CUDA kernels, on the emulator: what the CPU's array code computes, in float64."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest
from fake_cupy import BF16, EPS, F16, F32, F64, emulated, wide

from engine.backends import kernels_pool
from engine.backends.gpu import launch, pool

CASES = [  # shape, kernel, stride, padding, dilation, whether the last windows may be incomplete
    ((2, 3, 6, 4), (2, 2), None, 0, 1, False),
    ((1, 5, 7, 6), (3, 2), (2, 1), 1, 1, False),
    ((2, 1, 6, 7), (2, 2), 1, 0, 2, False),
    ((3, 9), (3,), 2, 1, 1, True),
    ((2, 4, 5, 4), (3, 3, 3), 2, 1, 1, True),
    ((2, 2, 4, 5, 4), (1, 2, 2), None, 0, 1, False),
    ((1, 2, 20, 20), (17, 16), 3, 8, 1, False),  # taps of 32 bits
    ((0, 3, 4, 4), (2, 2), None, 0, 1, False),
]
CASES = list(itertools.product(CASES, [False, True]))  # and whether channels are last in memory
each_case = pytest.mark.parametrize(("case", "last"), CASES, ids=str)


@pytest.fixture
def device(monkeypatch):
    made = emulated(monkeypatch, pool)
    yield made
    assert made.intact()


def drawn(shape, dtype):
    """Numbers of which many are equal, and a few that compare in their own way."""
    x = numpy.random.default_rng(len(shape)).integers(-4, 4, shape).astype(dtype)
    if x.dtype.kind not in "iu" and x.size:
        x.reshape(-1)[::11], x.reshape(-1)[5::17] = numpy.nan, -numpy.inf
    return x


def given(device, x, n, last):
    """The array on the device, with channels innermost in memory if they are last."""
    if not last:
        return device.array(x)
    return numpy.moveaxis(device.array(numpy.moveaxis(x, -n - 1, -1)), -1, -n - 1)


def like(a, x):
    """Whether the dimensions of two arrays are in the same order in memory."""
    ranked = [sorted(range(b.ndim), key=lambda d: -b.strides[d]) for b in (a, x) if min(a.shape) > 1 and min(x.shape) > 1]
    return not ranked or ranked[0] == ranked[1]


@each_case
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64, numpy.dtype("int16"), numpy.dtype("uint8"), numpy.dtype("int64")], ids=str)
def test_maxima_and_their_transposes(device, case, last, dtype):
    shape, kernel, stride, padding, dilation, ceil = case
    n, how = len(kernel), (stride, padding, dilation, ceil)
    x = drawn(shape, dtype)
    wanted, taps = kernels_pool.max_pool(x.astype(F64) if dtype in (F16, BF16) else x, n, kernel, *how)
    on_device = given(device, x, n, last)
    found, at = pool.max_pool(on_device, n, kernel, *how)
    assert found.dtype == dtype and at.dtype == taps.dtype and like(found, on_device) and like(at, on_device)
    assert numpy.array_equal(wide(found), wide(wanted), equal_nan=True) and numpy.array_equal(at, taps)

    g = drawn(wanted.shape, dtype) if dtype.kind in "iu" else numpy.random.default_rng(0).standard_normal(wanted.shape).astype(dtype)
    spread = pool.tap_scatter(given(device, g, n, last), at, shape, kernel, *how)
    wanted = kernels_pool.tap_scatter(g if dtype.kind in "iu" else g.astype(F64), taps, shape, kernel, *how)
    assert (
        spread.dtype == dtype
        and spread.shape == shape
        and numpy.all(abs(wide(spread) - wide(wanted)) <= 9 * EPS.get(dtype, 0) * (abs(wide(wanted)) + 1))
    )
    read = pool.tap_gather(on_device, at, kernel, *how)
    assert numpy.array_equal(wide(read), wide(kernels_pool.tap_gather(x, taps, kernel, *how)), equal_nan=True)


@each_case
@pytest.mark.parametrize(("include_pad", "divisor"), [(True, None), (False, None), (True, 5)])
@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
def test_means_and_their_transposes(device, case, last, include_pad, divisor, dtype):
    shape, kernel, stride, padding, dilation, ceil = case
    n, how, size = len(kernel), (stride, padding, ceil, include_pad, divisor), math.prod(kernel)
    x = numpy.random.default_rng(0).standard_normal(shape).astype(dtype)
    wanted = kernels_pool.avg_pool(x.astype(F64), kernel, *how)
    found = pool.avg_pool(given(device, x, n, last), kernel, *how)
    assert found.dtype == dtype and numpy.all(
        abs(wide(found) - wanted) <= EPS[dtype] * abs(wanted) + size * EPS[min(F32, dtype, key=EPS.get)]
    )
    g = numpy.random.default_rng(1).standard_normal(wanted.shape).astype(dtype)
    wanted = kernels_pool.avg_pool_back(g.astype(F64), shape, kernel, *how)
    found = pool.avg_pool_back(given(device, g, n, last), shape, kernel, *how)
    assert found.shape == shape and numpy.all(
        abs(wide(found) - wanted) <= EPS[dtype] * abs(wanted) + size * EPS[min(F32, dtype, key=EPS.get)]
    )


def test_offsets_of_more_than_32_bits_and_lists_of_batches(device, monkeypatch):
    monkeypatch.setattr(pool, "SMALL", 0)
    pool._packed.cache_clear()
    x = drawn((2, 3, 2, 6, 4), F32)
    found, taps = pool.max_pool(device.array(x.reshape(6, 2, 6, 4)), 2, (2, 2))
    wanted, at = kernels_pool.max_pool(x.reshape(6, 2, 6, 4), 2, (2, 2))
    assert numpy.array_equal(found, wanted, equal_nan=True) and numpy.array_equal(taps, at)
    spread = pool.tap_scatter(found.reshape(2, 3, 2, 3, 2), taps.reshape(2, 3, 2, 3, 2), x.shape, (2, 2))
    assert numpy.array_equal(spread, kernels_pool.tap_scatter(wanted, at, (6, 2, 6, 4), (2, 2)).reshape(x.shape), equal_nan=True)


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
def test_the_compiler_takes_every_text(arch):
    for T, offset in (
        ("half_t", "uint32_t"),
        ("bf16_t", "int64_t"),
        ("float", "uint32_t"),
        ("double", "uint32_t"),
        ("uint8_t", "uint32_t"),
    ):
        ptx = launch.compiled(launch.source("pool.cu", T=T, K="uint8_t", I=offset), arch).decode()
        assert ptx.count(".visible .entry") == 5 and (T == "double" or ".f64" not in ptx)
