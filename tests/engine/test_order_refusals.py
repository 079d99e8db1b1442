"""Order, counting and statistics where there is little to order: numbers, nothing, nan, bfloat16, and what is refused as PyTorch refuses it."""

from __future__ import annotations

import math

import pytest

import engine
from grouping import grouped

nan = math.nan
X, NOTHING, NUMBER = engine.tensor([3.0, 1.0, 2.0]), engine.ones(2, 0), engine.tensor(1.0)


def test_bfloat16_is_ordered_as_in_pytorch_where_it_is_nan():
    half = lambda *xs: engine.tensor(xs, dtype=engine.bfloat16)  # noqa: E731
    assert engine.bucketize(half(0.5, nan), half(-1, 0, 2)).tolist() == [2, 3]
    assert engine.searchsorted(half(0, 1, nan), half(nan, 0.5)).tolist() == [3, 1]  # PyTorch bisects: no comparison with nan is true
    assert engine.isin(half(1, nan, 2), half(nan, 2, 3)).tolist() == [False, False, True]
    assert engine.isin(half(1, nan, 2), 2).tolist() == [False, False, True]
    assert engine.isin(half(1, 2), engine.tensor([2, 3])).tolist() == [False, True]


def test_segments_of_nothing():
    """PyTorch's answers."""
    zero = engine.tensor([0])
    assert engine.segment_reduce(engine.ones(0), "sum", lengths=zero).tolist() == [0.0]
    assert engine.segment_reduce(engine.ones(0), "max", lengths=zero, initial=2).tolist() == [2.0]
    assert engine.segment_reduce(engine.ones(0, 2), "mean", lengths=engine.tensor([0, 0])).isnan().tolist() == [[True, True]] * 2
    assert engine.segment_reduce(NOTHING, "max", lengths=engine.tensor([1, 1])).shape == (2, 0)


def test_the_smallest_of_nothing():
    assert engine.kthvalue(NOTHING, 1, 0).values.shape == (0,)
    with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
        engine.kthvalue(NOTHING, 1)


def test_every_sample_has_places_of_its_own():
    x = engine.tensor([[1.0, 2, 1], [3, 3, 4]])
    found = engine.vmap(lambda v: v.index_reduce(0, v.argmax().reshape(1), v[:1], "mean"))(x)
    assert found.tolist() == [[1.0, 1.5, 1.0], [3.0, 3.0, 3.5]]
    assert engine.vmap(lambda v: engine.searchsorted(v, engine.tensor([2.5]), sorter=v.argsort()))(x).tolist() == [[3], [0]]


def test_searching_by_a_sorter():
    assert engine.searchsorted(X, engine.tensor([1.5]), sorter=engine.tensor([1, 2, 0])).tolist() == [1]


@grouped("call, kind, words", [
    (lambda: engine.searchsorted(NUMBER, X), RuntimeError, "positive dimension"),
    (lambda: engine.searchsorted(engine.ones(2, 3), 1), RuntimeError, r"boundaries tensor dim\(2\)"),
    (lambda: engine.searchsorted(X, X, sorter=engine.tensor([0])), RuntimeError, "must have the same size"),
    (lambda: engine.searchsorted(X, X, sorter=X), RuntimeError, "long dtype but got dtype float32"),
    (lambda: engine.searchsorted(X, X, sorter=engine.tensor([0, 1, 3])), RuntimeError, "sorter index out of range"),
    (lambda: engine.quantile(NUMBER, 0.1, 5), IndexError, r"\[-1, 0\], but got 5"),
    (lambda: engine.quantile(X, [0.1]), TypeError, "must be Tensor or float, not list"),
    (lambda: engine.unique(NOTHING, dim=0), RuntimeError, "0 sized dimensions"),
    (lambda: engine.unique_consecutive(NOTHING, dim=0), RuntimeError, "0 sized dimensions"),
    (lambda: engine.unique(NUMBER, dim=0), IndexError, "no dimensions"),
    (lambda: engine.unique_consecutive(X, dim=4), IndexError, "but got 4"),
    (lambda: engine.histogram(engine.tensor([1.0, nan]), 3), RuntimeError, r"range \[nan, nan\] is not finite"),
    (lambda: engine.histogram(X, 3, range=(1, math.inf)), RuntimeError, r"range \[1, inf\] is not finite"),
    (lambda: engine.histogramdd(engine.tensor([[1.0, nan]]), 3), RuntimeError, "dimension 1's range"),
    (lambda: engine.histogram(X.long(), 3), NotImplementedError, "int64"),
    (lambda: engine.gradient(X.to(engine.uint8)), RuntimeError, "uint8"),
    (lambda: X.index_reduce(0, engine.tensor([-1]), X[:1], "mean"), IndexError, "expected 0 to 2"),
    (lambda: engine.segment_reduce(NUMBER, "sum", lengths=engine.tensor([1])), RuntimeError, "than the 0 of data, but got 1"),
])  # fmt: skip
def test_what_is_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
