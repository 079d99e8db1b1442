"""The inspector against NumPy, and its sentences."""

from __future__ import annotations

import math

import ml_dtypes
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from walked import leaf

import engine
from engine import observe
from workbench import inspector
from workbench.graph import Graph
from workbench.recorder import Recorder


@given(arrays.arrays(numpy.float64, arrays.array_shapes(min_dims=0, max_dims=3, max_side=6), elements=st.floats(width=32)))
def test_counts_and_moments_are_those_of_numpy(x):
    s = inspector.summary(x)
    fine = x[numpy.isfinite(x)]
    assert (s.nan, s.pos_inf, s.neg_inf) == (numpy.isnan(x).sum(), (x == math.inf).sum(), (x == -math.inf).sum())
    assert (s.negative, s.zero, s.positive) == ((fine < 0).sum(), (fine == 0).sum(), (fine > 0).sum())
    assert s.size == x.size == s.nan + s.pos_inf + s.neg_inf + s.negative + s.zero + s.positive
    if fine.size:
        assert (s.min, s.max) == (fine.min(), fine.max())
        largest = float(numpy.abs(fine).max())
        assert s.mean == pytest.approx(fine.mean(), rel=1e-9, abs=1e-9 * largest)
    else:
        assert s.min is s.max is s.mean is None
    if fine.size > 1:
        assert s.std == pytest.approx(fine.std(ddof=1), rel=1e-6, abs=1e-6 * largest)
    if fine.size == x.size:
        assert s.norm == pytest.approx(float(numpy.linalg.norm(x.reshape(-1))), rel=1e-9)
    else:
        assert s.norm is None
    assert (s.values is None) == (x.size > 6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8", "bool", "complex64", "int8"])
def test_every_dtype_can_be_summarised(dtype):
    d = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = numpy.array([[0, 1, 1], [1, 0, 1], [0, 0, 1]]).astype(d)
    s = inspector.summary(x)
    assert (s.dtype, s.zero, s.positive, s.max) == (dtype, 4, 5, 1.0)
    assert sum(inspector.histogram(x).counts) == 9
    assert inspector.heat(x, [])[0].rows == 3


def test_moments_do_not_lose_digits_to_a_large_mean():
    x = (1e6 + numpy.random.default_rng(0).normal(size=200_000)).astype(numpy.float64)
    assert inspector.summary(x).std == pytest.approx(x.std(ddof=1), rel=1e-9)


def test_a_view_that_is_not_contiguous():
    x = numpy.arange(24.0).reshape(4, 6)[::2, ::-1].T
    s = inspector.summary(x)
    assert (s.shape, s.mean, s.min) == ([6, 2], x.mean(), x.min())


def test_the_histogram_counts_every_finite_element_once():
    x = numpy.random.default_rng(0).normal(size=5000).astype(numpy.float32)
    x[:3] = [math.nan, math.inf, -math.inf]
    h = inspector.histogram(x)
    fine = x[3:].astype(numpy.float64)
    assert sum(h.counts) == fine.size and not h.sampled
    wanted, _ = numpy.histogram(fine, bins=64, range=(h.low, h.high))
    assert numpy.abs(numpy.array(h.counts) - wanted).sum() <= 4  # an element on an edge may fall to either side
    assert inspector.histogram(numpy.full(9, 3.0)).counts[32] == 9
    assert inspector.histogram(numpy.array([math.nan])) is None


def test_a_large_histogram_is_sampled_first_and_exact_when_asked():
    x = numpy.random.default_rng(0).normal(size=1_500_000).astype(numpy.float32)
    assert inspector.histogram(x).sampled
    exact = inspector.histogram(x, exact=True)
    assert not exact.sampled and sum(exact.counts) == x.size


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_heat_map_pools_blocks(rows, cols):
    x = numpy.random.default_rng(rows * 1000 + cols).normal(size=(rows, cols)).astype(numpy.float32)
    heat, buffers, _ = inspector.heat(x, [])
    r, c = heat.mean.shape
    assert (heat.rows, heat.cols) == (rows, cols) and r == min(rows, 128) and c == min(cols, 128)
    mean, absmax = (numpy.frombuffer(b, "<f4").reshape(r, c) for b in buffers[:2])
    edges = [numpy.arange(n + 1) * size // n for n, size in ((r, rows), (c, cols))]
    i, j = r // 2, c - 1
    block = x[edges[0][i] : edges[0][i + 1], edges[1][j] : edges[1][j + 1]]
    assert mean[i, j] == pytest.approx(block.mean(dtype=numpy.float64), rel=1e-5, abs=1e-6)
    assert absmax[i, j] == numpy.abs(block).max()


def test_one_nan_among_many_is_never_averaged_away():
    x = numpy.ones((1000, 1000), numpy.float32)
    x[500, 501], x[3, 4], x[999, 0] = math.nan, math.inf, -math.inf
    heat, buffers, _ = inspector.heat(x, [])
    bad = numpy.frombuffer(buffers[2], numpy.uint8).reshape(heat.bad.shape)
    assert sorted(bad[bad > 0].tolist()) == [1, 2, 4]
    mean = numpy.frombuffer(buffers[0], "<f4")
    assert (mean == 1).all()


def test_slices_of_tensors_with_more_dimensions():
    x = numpy.arange(2 * 3 * 4 * 5, dtype=numpy.float32).reshape(2, 3, 4, 5)
    heat, buffers, at = inspector.heat(x, [1, 2])
    assert at == [1, 2]
    numpy.testing.assert_array_equal(numpy.frombuffer(buffers[0], "<f4").reshape(4, 5), x[1, 2])
    assert inspector.heat(x, [9])[2] == [1, 0]
    assert inspector.heat(numpy.zeros((0, 3)), [])[0] is None
    assert inspector.heat(numpy.float32(3), [])[0].mean.shape == [1, 1]


def reason(run, find) -> str:
    recorder = Recorder()
    with observe.observing(recorder):
        run()
    r = recorder.stop()
    Graph(r).finish({})
    return inspector.why_no_grad(r, find(r), r.passes)


def first(name: str):
    return lambda r: next(i for i in range(r.count) if (r.op_name(i) or r.kind[i]) == name)


def test_why_there_is_no_gradient():
    x = leaf(3)
    plain = engine.ones(3)

    def no_grad():
        with engine.no_grad():
            x.exp()

    assert "Backward has not run yet" in reason(lambda: x.exp().sum(), first("leaf"))
    assert "retain_grad" in reason(lambda: x.exp().sum().backward(), first("exp"))
    assert "under no_grad" in reason(no_grad, first("exp"))
    assert "does not require grad" in reason(lambda: plain.exp(), first("input"))
    assert "None of the tensors" in reason(lambda: plain.exp(), first("exp"))
    assert "int64" in reason(lambda: engine.arange(3) + 1, first("add"))
    assert "A number" in reason(lambda: x + 2, first("constant"))

    def unreachable():
        x.tanh()
        loss = x.exp().sum()
        loss.backward()

    def with_root(r):
        r.root = first("sum")(r)
        return first("tanh")(r)

    assert "does not depend on it" in reason(unreachable, with_root)


def test_facts_say_shape_memory_and_place():
    x = leaf(4, 6)
    view = x[1:3, ::2]
    told = {f.label: f.text for f in inspector.facts(view.array, view)}
    assert told["shape"] == "(2, 3)" and told["dtype"] == "float32" and told["device"] == "cpu"
    assert told["strides"] == "(6, 2), not contiguous"
    assert told["view of"] == "a tensor of shape (4, 6)"
    assert told["leaf"] == "False" and told["requires_grad"] == "True"
