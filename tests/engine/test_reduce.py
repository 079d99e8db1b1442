"""Reductions, scans and order statistics at their corners: expected numbers are PyTorch 2.13's (torch.<name> of the same arguments) or mathematics'."""

from __future__ import annotations

import math

import numpy
import pytest

import engine
from engine import Tensor
from engine.core.op import functions
from grouping import grouped

inf, nan = math.inf, math.nan
vector_norm = functions["linalg.vector_norm"]
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # 0 / 0 is among the corners


def t(data, dtype=engine.float64):
    return engine.tensor(data, dtype=dtype)


def grad(f, x):
    """The gradient of sum(f(x)), of its first result if there are several."""
    leaf = t(x).requires_grad_()
    out = f(leaf)
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    return leaf.grad.tolist()


def same(found, expected):
    found = found.array if isinstance(found, Tensor) else numpy.array(found)
    expected = numpy.array(expected)
    assert found.shape == expected.shape and numpy.allclose(found, expected, rtol=1e-6, atol=1e-12, equal_nan=True), (
        f"{found}, not {expected}"
    )


# -- gradients at corners ------------------------------------------------------------------------------------------------------

CORNERS = [
    # equal extremes: all share, along a dim the first has it all
    (lambda x: x.amax(), [1.0, 1, 0], [0.5, 0.5, 0]),
    (lambda x: x.max(), [1.0, 1, 0], [0.5, 0.5, 0]),
    (lambda x: x.max(), [nan, 1, 1], [1, 0, 0]),
    (lambda x: x.max(0), [1.0, 1, 0], [1, 0, 0]),
    (lambda x: x.min(0), [1.0, 0, 0], [0, 1, 0]),
    (lambda x: x.max(1).values, [[1.0, nan], [3, 2]], [[0, 1], [1, 0]]),
    (lambda x: sum(engine.aminmax(x)), [1.0, 1, 2], [0.5, 0.5, 1]),
    (lambda x: x.median(), [1.0, 1, 0, 2], [0.5, 0.5, 0, 0]),
    (lambda x: x.median(), [1.0, nan, 2], [0, 1, 0]),
    (lambda x: x.median(0), [1.0, 1, 0, 2], [1, 0, 0, 0]),
    (lambda x: x.nanmedian(), [1.0, nan, 2, 1], [0.5, 0, 0, 0.5]),
    (lambda x: x.mode(), [2.0, 1, 2, 1, 3], [0, 0, 0, 1, 0]),
    (lambda x: x.kthvalue(2), [3.0, 1, 2], [0, 0, 1]),
    (lambda x: x.quantile(0.3), [1.0, 2, 4, 7], [0.1, 0.9, 0, 0]),
    # spread of one element, and of equal ones
    (lambda x: x.std(), [1.0], [nan]),
    (lambda x: x.std(), [1.0, 1], [0, 0]),
    (lambda x: x.std(unbiased=False), [1.0], [0]),
    (lambda x: x.var(), [1.0], [nan]),
    (lambda x: x.var(), [1.0, 3], [-2, 2]),
    # zeros in products
    (lambda x: x.prod(), [0.0, 2, 3], [6, 0, 0]),
    (lambda x: x.prod(), [0.0, 2, 0], [0, 0, 0]),
    (lambda x: x.prod(1), [[0.0, 2], [3, 4]], [[2, 0], [4, 3]]),
    (lambda x: x.cumprod(0), [2.0, 0, 3, 0], [1, 8, 0, 0]),
    (lambda x: x.cummax(0), [1.0, 3, 3, 2], [1, 1, 2, 0]),
    # logarithms of sums
    (lambda x: x.logsumexp(0), [-inf, -inf], [nan, nan]),
    (lambda x: x.logsumexp(0), [inf, 1], [nan, 0]),
    (lambda x: x.logcumsumexp(0), [-inf, -inf, 1, 2], [0, 0, 1.2689414213699952, 0.7310585786300048]),  # PyTorch: nan at -inf
    # nans left out
    (lambda x: x.nansum(), [1.0, nan], [1, 0]),
    (lambda x: x.nanmean(), [1.0, nan, 3], [0.5, 0, 0.5]),
    # norms of (0, 3, -4, 4), and of zeros
    (lambda x: vector_norm(x, 0.5), [0.0, 3, -4, 4], [0, 3.3094010767585034, -2.8660254037844384, 2.8660254037844384]),
    (lambda x: vector_norm(x, 1), [0.0, 3, -4, 4], [0, 1, -1, 1]),
    (lambda x: vector_norm(x, 1.5), [0.0, 3, -4, 4], [0, 0.6258567627452247, -0.7226771408902065, 0.7226771408902065]),
    (lambda x: vector_norm(x, 2), [0.0, 3, -4, 4], [0, 0.4685212856658182, -0.6246950475544243, 0.6246950475544243]),
    (lambda x: vector_norm(x, 3), [0.0, 3, -4, 4], [0, 0.3119043109322806, -0.5544965527684989, 0.5544965527684989]),
    (lambda x: vector_norm(x, inf), [0.0, 3, -4, 4], [0, 0, -0.5, 0.5]),
    (lambda x: vector_norm(x, -inf), [0.0, 3, -4, 4], [0, 0, 0, 0]),
    (lambda x: vector_norm(x, -1), [0.0, 3, -4, 4], [0, 0, 0, 0]),
    *((lambda x, p=p: x.norm(p), [0.0, 0], [0, 0]) for p in (0.5, 1, 1.5, 2, 3, inf, -inf, "fro")),
]  # fmt: skip


@grouped(("f", "x", "expected"), [pytest.param(*case, id=str(i)) for i, case in enumerate(CORNERS)])
def test_gradient_at_corner(f, x, expected):
    same(grad(f, x), expected)


@pytest.mark.parametrize(
    "f", [lambda x: x.prod(), lambda x: x.cumprod(0), lambda x: x.norm(), lambda x: x.std(), lambda x: x.prod() * x.amax()]
)
@pytest.mark.parametrize("x", [[0.0, 2.0, 3.0], [0.5, 2.0, -3.0]])
def test_second_derivative(f, x):
    """Central differences of the first derivative, also where a factor is 0."""

    def first(values):
        leaf = t(values).requires_grad_()
        (g,) = engine.autograd.grad((f(leaf) * f(leaf)).sum(), [leaf], create_graph=True)
        return leaf, g

    leaf, g = first(x)
    weights = t([0.3, -1.0, 0.7])
    (found,) = engine.autograd.grad((g * weights).sum(), [leaf])
    for i in range(3):
        up, down = list(x), list(x)
        up[i] += 1e-5
        down[i] -= 1e-5
        slope = ((first(up)[1] - first(down)[1]) * weights).sum().item() / 2e-5
        assert found[i].item() == pytest.approx(slope, rel=1e-6, abs=1e-6)


# -- values --------------------------------------------------------------------------------------------------------------------

VALUES = [
    (lambda: t([]).sum(), 0), (lambda: t([]).prod(), 1), (lambda: t([]).mean(), nan), (lambda: t([]).std(), nan), (lambda: t([]).median(), nan),
    (lambda: t([]).logsumexp(0), -inf), (lambda: t([]).all(), True), (lambda: t([]).any(), False), (lambda: t([]).norm(), 0),
    (lambda: t(3.0).sum(0), 3), (lambda: t(3.0).sum(-1), 3), (lambda: t(3.0).mean((0,)), 3), (lambda: t(3.0).cumsum(0), 3), (lambda: t(3.0).softmax(0), 1),
    (lambda: t([[1.0, 2], [3, 4]]).sum(()), 10), (lambda: t([[1.0, 2], [3, 4]]).sum([0, 1]), 10), (lambda: t([[1.0, 2], [3, 4]]).sum(-1, True), [[3], [7]]),
    (lambda: t([1.0, 2, 3]).var(correction=5), inf), (lambda: t([1.0, 2]).std(False), 0.5), (lambda: t([1.0, 2]).std(0, False), 0.5),
    (lambda: t([1.0, 2]).std(None, keepdim=True), [math.sqrt(0.5)]), (lambda: t([[1.0, 2], [5, 2]]).var((0, 1), correction=0), 2.25),
    (lambda: t([1 + 1j, 2], engine.complex128).var(), 1), (lambda: t([1 + 1j, 2], engine.complex128).norm(), math.sqrt(6)),
    (lambda: engine.var_mean(t([1.0, 2]))[0], 0.5), (lambda: engine.std_mean(t([1.0, 2]), unbiased=False)[0], 0.5),
    (lambda: t([1000.0, 1000]).logsumexp(0), 1000 + math.log(2)), (lambda: t([inf, 1]).logsumexp(0), inf),
    (lambda: t([-inf, -inf, 1, 2, inf, 1]).logcumsumexp(0), [-inf, -inf, 1, 2.3132616875182226, inf, inf]),
    (lambda: t([[1.0, nan], [2, 3]]).nanmean(1), [1, 2.5]), (lambda: t([nan, 1]).amax(), nan), (lambda: t([nan, 1]).argmax(), 0), (lambda: t([1, nan]).argmin(), 1),
    (lambda: engine.ones(2, 3).argmax(keepdim=True), [[0]]), (lambda: engine.ones(2, 3).norm("fro", (0, 1)), math.sqrt(6)),
    (lambda: engine.ones(2, 3).count_nonzero(), 6), (lambda: t([[1.0, 0], [0, 0]]).count_nonzero(dim=1), [1, 0]),
    (lambda: t([1.0, nan, 0, nan]).median(0), (nan, 1)), (lambda: t([1.0, nan, 0, nan]).nanmedian(0), (0, 2)), (lambda: t([1.0, 1, 0, 2]).median(0), (1, 0)),
    (lambda: t([nan, nan]).nanmedian(0), (nan, 0)), (lambda: t([2.0, 1, 2, 1, 3]).mode(), (1, 3)), (lambda: t([3.0, 1, 2, 1]).kthvalue(2), (1, 3)),
    (lambda: t([nan, 1, nan, 2]).kthvalue(3), (nan, 0)), (lambda: t(1.0).kthvalue(1), (1, 0)),
    (lambda: t([1.0, 3, 3, 2, nan, 5, nan]).cummax(0), ([1, 3, 3, 3, nan, nan, nan], [0, 1, 2, 2, 4, 4, 6])), (lambda: t([1.0, 0, 0, 2]).cummin(0), ([1, 0, 0, 0], [0, 1, 2, 2])),
    (lambda: engine.ones(2, 3).max(1, True), ([[1], [1]], [[0], [0]])), (lambda: t([1.0, 2]).max(t([5.0, 0])), [5, 2]), (lambda: t([[1.0, 5]]).min(dim=1), ([1], [0])),
    (lambda: engine.aminmax(t([[1.0, 5]]), dim=1), ([1], [5])),
    (lambda: engine.tensor([True, False]).diff(), [True]), (lambda: t([1.0, 4, 9]).diff(2), [2]), (lambda: t([1.0, 2]).diff(n=5), []),
    (lambda: t([1.0, 4]).diff(prepend=t([0.0]), append=t([9.0])), [1, 3, 5]),
    (lambda: engine.trapezoid(t([1.0, 2, 4])), 4.5), (lambda: engine.trapezoid(t([1.0, 2, 4]), t([0.0, 1, 3])), 7.5), (lambda: engine.trapezoid(t([1.0, 2, 4]), dx=2), 9),
    (lambda: engine.trapezoid(t([[1.0, 2], [3, 4]]), t([0.0, 2]), dim=0), [4, 6]), (lambda: engine.cumulative_trapezoid(t([1.0, 2, 4])), [1.5, 4.5]),
    (lambda: t([1.0, 2, 4, 7]).quantile(t([0.1, 0.5])), [1.3, 3]), (lambda: t([[1.0, nan], [1, 2]]).quantile(0.5, dim=1), [nan, 1.5]),
    *((lambda m=m: t([1.0, 2, 4, 7]).quantile(0.5, interpolation=m), v) for m, v in zip(("linear", "lower", "higher", "nearest", "midpoint"), (3, 2, 4, 4, 3), strict=True)),
    (lambda: t([0.0, 1, 2, 3, 4]).quantile(t([0.125, 0.375]), interpolation="nearest"), [0, 2]),
    # ranks are counted in the dtype of the elements: 0.29 * 100 is 29 in float32 and less in float64
    *((lambda d=d, m=m: engine.arange(101, dtype=d).quantile(0.29, interpolation=m), v) for d, m, v in (
        (engine.float32, "lower", 29), (engine.float64, "lower", 28), (engine.float32, "midpoint", 29), (engine.float64, "midpoint", 28.5))),
    (lambda: engine.ones(2, 3).quantile(engine.tensor([0.1, 0.5]), dim=1, keepdim=True), [[[1], [1]], [[1], [1]]]), (lambda: engine.ones(2, 3).quantile(0.1, keepdim=True), [[1]]),
    (lambda: engine.unique(engine.tensor([[1, 3], [3, 2]]), return_inverse=True, return_counts=True), ([1, 2, 3], [[0, 2], [2, 1]], [1, 1, 2])),
    (lambda: engine.unique(engine.tensor([[1, 3], [1, 3], [0, 2]]), dim=0, return_inverse=True, return_counts=True), ([[0, 2], [1, 3]], [1, 1, 0], [1, 2])),
    (lambda: engine.unique(t([nan, nan, 1])), [1, nan, nan]),
    (lambda: engine.unique_consecutive(engine.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True), ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])),
    (lambda: engine.bincount(engine.tensor([0, 1, 1]), minlength=4), [1, 2, 0, 0]), (lambda: engine.bincount(engine.tensor([0, 1, 1]), t([0.5, 1, 1])), [0.5, 2]),
    (lambda: engine.histc(t([1.0, 2, 1, 4, nan]), bins=4, min=0, max=3), [0, 2, 1, 0]), (lambda: engine.histc(t([1.0, 2, 1, 4]), bins=3), [2, 1, 1]),
    (lambda: engine.histc(t([2.0, 2]), bins=3), [0, 2, 0]), (lambda: engine.histc(t([]), 2), [0, 0]),
    (lambda: engine.searchsorted(engine.tensor([[1, 3, 5], [2, 4, 6]]), engine.tensor([[3, 6], [3, 6]])), [[1, 3], [1, 2]]),
    (lambda: engine.searchsorted(engine.tensor([1, 3, 5]), 3, right=True), 2), (lambda: engine.searchsorted(engine.tensor([1, 3, 5]), engine.tensor([3]), side="right"), [2]),
    (lambda: engine.searchsorted(engine.tensor([5, 1, 3]), engine.tensor([3]), sorter=engine.tensor([1, 2, 0])), [1]), (lambda: engine.searchsorted(t([1.0, 2]), t([nan])), [2]),
    (lambda: engine.bucketize(engine.tensor([[1, 9], [3, 4]]), engine.tensor([1, 3, 5])), [[0, 3], [1, 2]]),
]  # fmt: skip


@grouped(("f", "expected"), [pytest.param(*case, id=str(i)) for i, case in enumerate(VALUES)])
def test_value(f, expected):
    found = f()
    if isinstance(expected, tuple):
        for one, wanted in zip(found, expected, strict=True):
            same(one, wanted)
    else:
        same(found, expected)


@pytest.mark.parametrize("name", ["sum", "prod", "nansum"])
def test_integers_add_up_to_int64(name):
    for d in (engine.bool, engine.uint8, engine.int32):
        assert getattr(engine.tensor([1, 1], dtype=d), name)().dtype is engine.int64
    for scan in (engine.cumsum, engine.cumprod):
        assert scan(engine.tensor([1, 1], dtype=engine.uint8), 0).dtype is engine.int64
    assert engine.tensor([200, 100], dtype=engine.uint8).sum().item() == 300


def test_dtype_argument_casts_first():
    assert engine.tensor([1, 2]).mean(dtype=engine.float64).item() == 1.5
    assert engine.ones(3000, dtype=engine.float16).sum(dtype=engine.float32).item() == 3000
    assert engine.tensor([1.5, 1.5]).sum(dtype=engine.int32).item() == 2
    assert engine.tensor([1, 2]).softmax(0, dtype=engine.float64).dtype is engine.float64
    x = engine.tensor([1.0, 2.0]).requires_grad_()
    x.sum(dtype=engine.float64).backward()
    assert x.grad.dtype is engine.float32 and x.grad.tolist() == [1.0, 1.0]


def test_results_are_named():
    values, indices = engine.tensor([[1.0, 3.0]]).max(dim=1)
    found = engine.tensor([[1.0, 3.0]]).max(dim=1)
    assert found.values.tolist() == values.tolist() == [3.0] and found.indices.tolist() == indices.tolist() == [1]
    assert found.indices.dtype is engine.int64 and not found.indices.requires_grad
    assert (
        engine.all(engine.tensor([1, 2], dtype=engine.uint8)).dtype is engine.uint8
        and engine.all(engine.tensor([1.0])).dtype is engine.bool
    )


# -- refusals ------------------------------------------------------------------------------------------------------------------

NOTHING = "Expected reduction dim to be specified for input.numel"
REFUSALS = [
    *((lambda name=name: getattr(t([]), name)(), RuntimeError, NOTHING) for name in ("max", "min", "amax", "amin")),
    *((lambda name=name: getattr(t([]), name)(), IndexError, NOTHING) for name in ("argmax", "argmin")),
    *((lambda name=name: getattr(engine.zeros(2, 0), name)(dim=1), IndexError, "dim 1 to have non-zero size")
      for name in ("max", "min", "amax", "amin", "argmax", "argmin", "median", "mode")),
    *((lambda name=name: getattr(t([1.0]), name)(dim=1), IndexError, "Dimension out of range")
      for name in ("sum", "mean", "prod", "std", "amax", "max", "argmax", "all", "median", "logsumexp", "cumsum", "cummax", "softmax", "norm", "mode", "count_nonzero")),
    (lambda: t(1.0).sum(1), IndexError, r"expected to be in range of \[-1, 0\], but got 1"),
    (lambda: engine.zeros(100, 100).sum(2), IndexError, "Dimension out of range"),
    (lambda: engine.ones(2, 2).sum((0, -2)), RuntimeError, "duplicate"),
    (lambda: engine.tensor([1]).mean(), RuntimeError, "floating point or complex dtype. Got: int64"),
    (lambda: engine.tensor([1]).std(), RuntimeError, "floating point"),
    (lambda: engine.tensor([1]).nanmean(), RuntimeError, "floating point"),
    (lambda: engine.tensor([1]).norm(), RuntimeError, "floating point or complex tensor"),
    (lambda: engine.tensor([True]).argmax(), RuntimeError, "bool"),
    (lambda: engine.ones(2, 2).max((0, 1)), TypeError, "amax"),
    (lambda: vector_norm(t([]), inf), RuntimeError, "empty"),
    (lambda: t([1.0]).kthvalue(2), RuntimeError, "out of range"),
    (lambda: t([1.0]).kthvalue(0), RuntimeError, "out of range"),
    (lambda: t([1.0]).quantile(1.5), RuntimeError, r"range \[0, 1\] but got 1.5"),
    (lambda: engine.tensor([1]).quantile(0.5), RuntimeError, "float or double"),
    (lambda: t([1.0]).quantile(engine.tensor([0.5])), RuntimeError, "same dtype"),
    (lambda: t([]).quantile(0.5), RuntimeError, "non-empty"),
    (lambda: t(1.0).diff(), RuntimeError, "one-dimensional"),
    (lambda: engine.bincount(engine.tensor([-1])), RuntimeError, "non-negative"),
    (lambda: engine.bincount(t([1.0])), NotImplementedError, "integers"),
    (lambda: engine.bincount(engine.tensor([1]), t([1.0, 2.0])), RuntimeError, "same length"),
    (lambda: engine.histc(t([1.0]), 3, min=2, max=1), RuntimeError, "larger"),
    (lambda: engine.histc(t([nan, 1]), 3), RuntimeError, "not finite"),
    (lambda: engine.histc(t([1.0]), 0), RuntimeError, "bins must be > 0"),
    (lambda: engine.searchsorted(t([[1.0], [2]]), t([1.0])), RuntimeError, "boundaries tensor"),
    (lambda: engine.searchsorted(t([1.0]), t([1.0]), side="left", right=True), RuntimeError, "opposites"),
    (lambda: engine.bucketize(t([1.0]), t([[1.0]])), RuntimeError, "1 dimension"),
]  # fmt: skip


@grouped(("f", "kind", "words"), [pytest.param(*case, id=str(i)) for i, case in enumerate(REFUSALS)])
def test_refusal(f, kind, words):
    with pytest.raises(kind, match=words):
        f()


# -- large arrays take other paths ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40, 301), (3, 40, 301), (20000,)])
def test_large_sums(shape):
    x = numpy.random.default_rng(0).normal(size=shape)
    for dim in (None, 0, -1, tuple(range(len(shape) - 1)) or None):
        for keepdim in (False, True):
            same(t(x).sum(dim, keepdim), x.sum(dim, keepdims=keepdim))
    same(t(x).softmax(-1), numpy.exp(x) / numpy.exp(x).sum(-1, keepdims=True))
    same(t(x).log_softmax(0), x - numpy.log(numpy.exp(x).sum(0)))
    same(t(x.T).softmax(0), (numpy.exp(x) / numpy.exp(x).sum(-1, keepdims=True)).T)


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
@pytest.mark.parametrize(
    ("shape", "dim"), [((40, 1000), 1), ((1000, 40), 0), ((5, 480, 64), 1), ((30000,), 0), ((3, 9973), 1), ((900, 50, 2), 1)]
)
def test_long_running_sums(shape, dim, dtype):
    """In blocks, of whatever shape: NumPy's sums in float64, to what rounding may do."""
    x = numpy.random.default_rng(0).normal(size=shape).astype(dtype)
    t = engine.tensor(x, requires_grad=True)
    out, room = t.cumsum(dim), 4 * shape[dim] ** 0.5 * numpy.finfo(dtype).eps
    expected = numpy.cumsum(x, dim, numpy.float64)
    assert abs(out.detach().numpy() - expected).max() <= room * abs(expected).max()
    g = numpy.random.default_rng(1).normal(size=shape).astype(dtype)
    out.backward(engine.tensor(g))
    expected = numpy.flip(numpy.cumsum(numpy.flip(g, dim), dim, numpy.float64), dim)
    assert abs(t.grad.numpy() - expected).max() <= room * abs(expected).max()
    assert (engine.tensor(numpy.abs(x)).cumsum(dim).diff(dim=dim) >= 0).all()


def test_a_nan_in_a_long_running_sum_stays_behind_what_comes_before_it():
    x = engine.ones(20000)
    x[7777] = engine.nan
    assert x.cumsum(0).isnan().nonzero()[0].item() == 7777 and x.cumsum(0)[7776] == 7777
    x[7777] = engine.inf
    assert x.cumsum(0)[7776:7778].tolist() == [7777, engine.inf]
