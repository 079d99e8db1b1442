"""Reductions by CUDA kernels, on the emulator: values, dtypes, orders of threads, memory, and what the compiler makes of the text."""

from __future__ import annotations

import math
import re

import numpy
import pytest
from fake_cupy import BF16, C64, C128, EPS, F16, F32, F64, FLOATS, emulated, wide

from engine.backends import reduction
from engine.backends.gpu import launch, reduce
from engine.base.errors import Refused

pytestmark = pytest.mark.slow  # a text that is new takes a second to build

INTEGERS = [numpy.dtype(d) for d in ("u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8")]
BOOL = numpy.dtype(bool)

# all elements, rows, columns and mixtures: few and many, odd sizes, in one part and in several, in vectors and one by one
SHAPES = [
    ((), None), ((1,), None), ((7,), 0), ((1003,), None), ((40, 33), 1), ((40, 33), 0), ((300, 3), 1), ((3, 1030), -1), ((520, 8), 0), ((5, 7, 9), 1),
    ((4, 6, 10), (0, 2)), ((3, 2, 5, 7), (1, 3)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 2, 3, 2), (0, 2, 4)), ((40000,), None), ((2, 9001), 1),
    ((6, 2, 4096), (0, 2)), ((9000, 3), 0), ((640, 64), 0), ((3, 50, 16), 1), ((5, 4), ()), ((2, 1, 3), 1),
]  # fmt: skip
ONE_AXIS = [(shape, axis) for shape, axis in SHAPES if axis.__class__ is not tuple]


@pytest.fixture
def device(monkeypatch):
    made = emulated(monkeypatch, reduce)
    yield made
    assert made.intact()


def draw(shape, dtype, seed=0):
    rng = numpy.random.default_rng((seed, *shape))
    if dtype == BOOL:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = numpy.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = rng.normal(0.5, 1, shape)
    return (x + 1j * rng.normal(0, 1, shape) if dtype.kind == "c" else x).astype(dtype)


def on_device(device, name, x, *args, **kwargs):
    """The same bits in three orders of threads and blocks."""
    results = []
    for seed in range(3):
        device.order(seed)
        results.append(numpy.asarray(getattr(reduce, name)(x, *args, **kwargs)))
        assert device.emulator.launches or not results[0].size
    assert len({r.tobytes() for r in results}) == 1, "the result depends on the order of threads"
    return results[0]


def check(device, name, x, axis, want, scale, terms=4.0):
    """`want` in double precision, with a few rounding errors of `scale`, the sum of the sizes of what is added."""
    found = on_device(device, name, x, axis)
    assert found.shape == numpy.shape(want)
    unit = EPS[found.dtype]
    exact = EPS[F64 if x.dtype in (F64, C128) or x.dtype.kind in "biu" else F32]
    assert numpy.all(numpy.abs(wide(found) - want) <= unit * numpy.abs(want) + terms * exact * scale + 1e-300)


@pytest.mark.parametrize("dtype", [*FLOATS, C64, C128], ids=str)
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_and_means(name, dtype, device):
    for shape, axis in SHAPES:
        x = draw(shape, dtype)
        n = reduction.count(x, axis) if name == "mean" else 1
        check(device, name, device.array(x), axis, wide(x).sum(axis) / n, numpy.abs(wide(x)).sum(axis) / n)


@pytest.mark.parametrize("dtype", [BOOL, *INTEGERS], ids=str)
def test_sums_of_integers_are_exact(dtype, device):
    for shape, axis in SHAPES:
        x = draw(shape, dtype)
        found = on_device(device, "sum", device.array(x), axis)
        want = reduction.sum(x, axis)
        assert found.dtype == want.dtype and numpy.array_equal(found, want)


@pytest.mark.parametrize("dtype", [BOOL, numpy.dtype("u1"), numpy.dtype("i4"), F32, BF16, C64], ids=str)
@pytest.mark.parametrize("name", ["any", "all", "count_nonzero"])
def test_truth(name, dtype, device):
    for shape, axis in SHAPES:
        for share in (0, 0.001, 0.5, 0.999, 1):
            x = (numpy.random.default_rng(1).random(shape) < share).astype(dtype)
            if x.size > 5 and dtype.kind in "fc":
                x.reshape(-1)[3] = numpy.nan  # not zero
            found = on_device(device, name, device.array(x), axis)
            want = getattr(reduction, name)(x, axis)
            assert found.dtype == want.dtype and numpy.array_equal(found, want)


@pytest.mark.parametrize("dtype", [F16, F32, F64, C64, numpy.dtype("i4"), numpy.dtype("u1")], ids=str)
def test_products(dtype, device):
    for shape, axis in SHAPES:
        if dtype.kind in "iu":
            x = draw(shape, dtype) | 1
            found, want = on_device(device, "prod", device.array(x), axis), reduction.prod(x, axis)
            assert found.dtype == want.dtype and numpy.array_equal(found, want)
        else:
            x = numpy.exp(draw(shape, F64) / 100 + (1j * draw(shape, F64, 1) if dtype == C64 else 0)).astype(dtype)
            x = (x / numpy.exp(numpy.log(numpy.abs(wide(x))).mean() if x.size else 0)).astype(dtype)
            want = wide(x).prod(axis)
            check(device, "prod", device.array(x), axis, want, reduction.count(x, axis) * numpy.abs(want))


@pytest.mark.parametrize("dtype", [*FLOATS, BOOL, *INTEGERS[:5]], ids=str)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes(name, dtype, device):
    for shape, axis in SHAPES:
        for nans in (False, True):
            x = draw(shape, dtype)
            if nans and dtype in FLOATS and x.size > 9:
                x.reshape(-1)[[2, 7]] = numpy.nan
                x.reshape(-1)[4] = -numpy.inf
            found = on_device(device, name, device.array(x), axis)
            want = getattr(reduction, name)(wide(x) if dtype in FLOATS else x, axis)
            assert found.dtype == dtype and numpy.array_equal(wide(found), wide(want), equal_nan=True)


@pytest.mark.parametrize("dtype", [F32, BF16, F64, BOOL, numpy.dtype("u1"), numpy.dtype("i8")], ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name, dtype, device):
    for shape, axis in ONE_AXIS:
        for spread in (1, 3):
            x = (draw(shape, F64) * spread).round().astype(dtype)  # many ties
            if spread == 3 and dtype in FLOATS and x.size > 9:
                x.reshape(-1)[[2, 8]] = numpy.nan
            found = on_device(device, name, device.array(x), axis)
            want = getattr(numpy, name)(wide(x) if dtype in FLOATS else x, axis)
            assert found.dtype == numpy.int64 and numpy.array_equal(found, want)
    x = device.array(numpy.full((3, 2000), -numpy.inf if dtype in FLOATS else 0).astype(dtype))
    assert numpy.array_equal(on_device(device, name, x, 1), [0, 0, 0])


@pytest.mark.parametrize("dtype", [*FLOATS, C64], ids=str)
@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_spreads(name, correction, dtype, device):
    for shape, axis in SHAPES:
        x = draw(shape, dtype)
        with numpy.errstate(all="ignore"):
            want = getattr(reduction, name)(wide(x), axis, correction)
        found = on_device(device, name, device.array(x), axis, correction)
        real = F32 if dtype == C64 else dtype
        assert found.dtype == real and found.shape == want.shape
        numpy.testing.assert_allclose(wide(found), want, rtol=8 * max(EPS[real], EPS[F64 if dtype == F64 else F32]), atol=1e-300)


def test_a_spread_far_from_zero(device):
    for shape, axis in (((1003,), None), ((3, 3000), 1), ((3000, 3), 0), ((40000,), None)):
        x = (10000 + draw(shape, F64)).astype(F32)
        numpy.testing.assert_allclose(on_device(device, "var", device.array(x), axis), wide(x).var(axis), rtol=1e-5)


NORMS = [0, 1, 2, 3, 0.5, -1, math.inf, -math.inf]


@pytest.mark.parametrize("dtype", [F16, F32, F64, C64], ids=str)
def test_norms(dtype, device):
    for shape, axis in SHAPES[:19:2]:
        for ord in NORMS:
            x = draw(shape, dtype)
            want = reduction.vector_norm(wide(x), ord, axis)
            found = on_device(device, "vector_norm", device.array(x), ord, axis)
            real = F32 if dtype == C64 else dtype
            assert found.dtype == real and found.shape == want.shape
            with numpy.errstate(over="ignore"):
                want = wide(want.astype(real))
            numpy.testing.assert_allclose(wide(found), want, rtol=4 * EPS[real] + 40 * EPS[F64 if dtype == F64 else F32])


@pytest.mark.parametrize("dtype", [*FLOATS, C64], ids=str)
def test_logarithms_of_sums_of_exponentials(dtype, device):
    for shape, axis in SHAPES:
        x = draw(shape, dtype) * dtype.type(20)
        want = reduction.logsumexp(wide(x), axis)
        found = on_device(device, "logsumexp", device.array(x), axis)
        assert found.dtype == dtype
        real = F32 if dtype == C64 else dtype
        off = wide(found) - want
        off = off.real + 1j * ((off.imag + math.pi) % (2 * math.pi) - math.pi) if dtype == C64 else off
        assert numpy.all(
            numpy.abs(off) <= 2 * EPS[real] * numpy.abs(want) + 100 * EPS[F64 if dtype == F64 else F32] * max(numpy.abs(want).max(), 1)
        )


def test_logarithms_of_sums_with_infinities(device):
    inf, nan = math.inf, math.nan
    x = numpy.array([[-inf] * 4, [inf, 0, 1, 2], [inf, -inf, 0, 0], [nan, inf, 0, 0], [-inf, 3, -inf, -inf], [3e38, 3e38, 0, 0]], F32)
    for rows in (x, numpy.repeat(x, 300, 1)):
        with numpy.errstate(all="ignore"):
            want = reduction.logsumexp(wide(rows), 1)
        numpy.testing.assert_allclose(on_device(device, "logsumexp", device.array(rows), 1), want, rtol=1e-6)
        numpy.testing.assert_allclose(on_device(device, "logsumexp", device.array(rows.T), 0), want, rtol=1e-6)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_stays(value, device):
    for shape, axis in (((1003,), None), ((9, 300), 1), ((300, 9), 0)):
        x = 1 + draw(shape, F32) / 1000
        x.reshape(-1)[5] = value
        for name in ("sum", "mean", "prod", "max", "min", "var", "vector_norm"):
            args = (2.0, axis) if name == "vector_norm" else (axis,)
            with numpy.errstate(all="ignore"):
                want = getattr(reduction, name)(wide(x), *args)
            numpy.testing.assert_allclose(on_device(device, name, device.array(x), *args), want, rtol=1e-4)


# -- memory ------------------------------------------------------------------------------------------------------------------


def test_any_strides(device):
    whole = device.array(draw((6, 9, 20), F32))
    views = [
        whole.transpose(2, 0, 1),
        whole.transpose(0, 2, 1),
        whole[:, ::2],
        whole[::-1],
        whole[..., 3:],
        numpy.broadcast_to(whole[:1], (4, 9, 20)),
    ]
    for x in (*views, device.array(draw((3, 67), F32), offset=1), device.array(draw((1003,), F32), offset=3)):
        x = x.view(type(whole))
        for axis in (None, 0, -1, tuple(range(x.ndim - 1))):
            for keepdims in (False, True):
                want = wide(x).sum(axis, keepdims=keepdims)
                found = reduce.sum(x, axis, keepdims)
                assert found.shape == want.shape
                numpy.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
                if axis.__class__ is not tuple:
                    assert numpy.array_equal(reduce.argmax(x, axis, keepdims), numpy.asarray(x).argmax(axis, keepdims=keepdims))


def test_sums_are_as_accurate_as_pairwise_ones(device):
    for shape, axis in (((1 << 20,), None), ((2, 1 << 18), 1), ((1 << 18, 2), 0)):
        x = numpy.random.default_rng(0).random(shape, F32)
        found, want = reduce.sum(device.array(x), axis), x.sum(axis, dtype=F64)
        assert numpy.all(numpy.abs(found - want) <= 4 * EPS[F32] * want)


def test_no_elements(device):
    for shape, axis in (((0,), None), ((3, 0), 1), ((0, 3), 0), ((0, 3), None), ((0, 3), 1), ((2, 0, 3), (0, 1))):
        x = device.array(numpy.zeros(shape, F32))
        for name in ("sum", "mean", "prod", "any", "all", "var", "logsumexp", "count_nonzero"):
            with numpy.errstate(all="ignore"):
                want = getattr(reduction, name)(numpy.zeros(shape, F32), axis)
            assert numpy.array_equal(getattr(reduce, name)(x, axis), want, equal_nan=True)
        for name in ("max", "argmax") if axis.__class__ is not tuple else ("max",):
            try:
                want = getattr(reduction, name)(numpy.zeros(shape, F32), axis)
            except Exception as error:
                with pytest.raises(type(error), match=re.escape(str(error))):
                    getattr(reduce, name)(x, axis)
            else:
                assert getattr(reduce, name)(x, axis).shape == want.shape
    with pytest.raises(Refused, match="cannot compute the inf norm on an empty tensor"):
        reduce.vector_norm(device.array(numpy.zeros(0, F32)), math.inf)


def test_a_number_has_one_dimension_too_many(device):
    x = device.array(numpy.array(3.0, F32))
    assert reduce.sum(x, 0) == reduce.max(x, (-1,)) == 3 and reduce.argmax(x, 0) == 0
    with pytest.raises(numpy.exceptions.AxisError):
        reduce.sum(x, 1)


def test_sums_in_another_dtype(device):
    x = draw((5, 30), numpy.dtype("i4"))
    for dtype in ("i8", "f8", "i4"):
        found = reduce.sum(device.array(x), 1, dtype=dtype)
        assert found.dtype == dtype and numpy.array_equal(found, x.sum(1, dtype=dtype))


def test_launches_of_huge_arrays_are_within_limits():
    for sizes in (
        (1, 1, 1, 1 << 36),
        (1 << 20, 1, 1, 1 << 14),
        (1 << 33, 1, 1, 3),
        (1, 1 << 33, 4, 1),
        (1, 3, 1 << 33, 1),
        (1, 1 << 20, 64, 1 << 9),
    ):
        for aligned in (True, False):
            plan = reduce._plan(sizes, 4, aligned)
            assert 0 < plan.grid < 1 << 31 and plan.parts * plan.outputs * 48 <= 1 << 40
            assert plan.threads & (plan.threads - 1) == 0 and plan.threads <= 256


# -- the compiler, and faults that the tests must find --------------------------------------------------------------------------

KINDS = re.findall(r"^struct (\w+) : ", (launch.HERE / "reduce.cu").read_text(), re.MULTILINE)
KINDS = [kind for kind in KINDS if kind != "Pairs"]


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
def test_the_compiler_takes_every_text(arch):
    assert len(KINDS) == 21
    for kind, dtype in {*((kind, dtype) for kind in KINDS for dtype in (F32, BF16)), *(("Sum", dtype) for dtype in reduce._ALL)}:
        ptx = launch.compiled(launch.source("reduce.cu", T=launch.TYPES[dtype.name], R=f"struct {kind}"), arch).decode()
        vectors = 2 if dtype.itemsize == 8 and dtype.kind != "c" else 4
        if dtype.itemsize < 16:
            loads = re.findall(rf"ld\.global[.\w]*\.v{vectors}", ptx) or re.findall(r"ld\.global[.\w]*\.v2\.[fub]64", ptx)
            assert len(loads) >= 8, (kind, dtype)  # four ahead, in rows and in columns


FAULTS = {
    "no barrier before a result is merged": ("    __syncthreads();\n    if ((threadIdx.x & (high", "    if ((threadIdx.x & (high"),
    "no barrier before the next use": ("  __syncthreads();\n  held[threadIdx.x] = a;", "  held[threadIdx.x] = a;"),
    "reading past the end": ("last = min(all, (part + 1) * share);", "last = min(all + 1, (part + 1) * share + 1);"),
    "elements left out": ("v + (AHEAD - 1) * from.step < last", "v + AHEAD * from.step <= last + 1"),
    "a wrong stride": ("run * apart + j * N", "run * (apart - N) + j * N"),
    "a wrong run": ("if (j >= per) j -= per, ++run;", ""),
    "a part that nobody merges": ("? parts : 0)", "? parts - 1 : 0)"),
    "columns of another block": ("- part * strips) * side", "- part * strips) * (side + 1)"),
    "a partial result at a wrong place": ("partial[part * outputs + k + n] = a", "partial[part * outputs + k] = a"),
    "an order that depends on time": ("partial[group] = a", "partial[group ^ 1] = a"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault, device, monkeypatch):
    right, wrong = FAULTS[fault]
    text = launch.source("reduce.cu", T="float", R="struct Sum")
    assert text.count(right) >= 1
    monkeypatch.setattr(reduce, "_kernel", lambda kind, dtype, name: launch.Kernel(text.replace(right, wrong), name))
    with pytest.raises((AssertionError, RuntimeError)):
        for shape, axis in SHAPES:
            x = draw(shape, F32)
            check(device, "sum", device.array(x), axis, wide(x).sum(axis), numpy.abs(wide(x)).sum(axis))
