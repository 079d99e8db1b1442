"""Writes to views whose elements share places in memory: windows that overlap, and expanded tensors.

The values are PyTorch's, but for mul_ and add_, of which it promises none: it writes a place as often as it is seen. The gradients
are those of what was written, which finite differences confirm; PyTorch's also count the old number of a place that was overwritten.
"""

from __future__ import annotations

import pytest

import engine

WINDOWS = {"unfold": lambda x: x.unfold(0, 3, 1), "as_strided": lambda x: engine.as_strided(x, (3, 3), (1, 1))}


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS.keys())
@pytest.mark.parametrize(
    ("write", "values", "slopes"),
    [
        (lambda v: v.mul_(2), [2, 4, 6, 8, 10], [2, 4, 6, 8, 10]),
        (lambda v: v.add_(1), [2, 3, 4, 5, 6], [1, 2, 3, 4, 5]),
        (lambda v: v.fill_(3), [3, 3, 3, 3, 3], [0, 0, 0, 0, 0]),
        (lambda v: v.clamp_(0, 3), [1, 2, 3, 3, 3], [1, 2, 3, 0, 0]),
        (lambda v: v.index_put_((engine.tensor([0]), engine.tensor([1])), engine.tensor([9.0])), [1, 9, 3, 4, 5], [1, 0, 3, 4, 5]),
        (lambda v: v.index_fill_(0, engine.tensor([1]), 7.0), [1, 7, 7, 7, 5], [1, 0, 0, 0, 5]),
        (lambda v: v.index_copy_(0, engine.tensor([0]), engine.ones(1, 3)), [1, 1, 1, 4, 5], [0, 0, 0, 4, 5]),
        (lambda v: v.index_add_(0, engine.tensor([0]), engine.ones(1, 3)), [2, 3, 4, 4, 5], [1, 2, 3, 4, 5]),
        (lambda v: v.scatter_(0, engine.tensor([[0, 1]]), 5.0), [5, 2, 5, 4, 5], [0, 2, 0, 4, 5]),
        (lambda v: v.tril_(), [1, 0, 0, 0, 5], [1, 0, 0, 0, 5]),
        (lambda v: v.masked_fill_(v > 4, 7.0), [1, 2, 3, 4, 7], [1, 2, 3, 4, 0]),
    ],
)
@pytest.mark.parametrize("grad", [True, False])
def test_a_write_to_windows_that_overlap(windows, write, values, slopes, grad):
    x = engine.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=grad)
    base = x * 1
    write(windows(base))
    assert base.tolist() == values
    if grad:
        (base * (engine.arange(5.0) + 1)).sum().backward()
        assert x.grad.tolist() == slopes


def test_derivatives_through_a_write_to_windows_that_overlap():
    def program(x):
        y = x * 1
        v = y.unfold(0, 2, 1)
        v.mul_(x[:1])
        v.index_put_((engine.tensor([0]), engine.tensor([1])), x[1:2] ** 2)
        return y * y, v.sum(0)

    x = engine.tensor([1.3, 2.1, 0.7], dtype=engine.float64, requires_grad=True)
    assert engine.autograd.gradcheck(program, (x,)) and engine.autograd.gradgradcheck(program, (x,))


def test_nans_that_a_write_leaves_alone_are_not_written_back():
    x = engine.tensor([1.0, float("nan"), 3.0, 4.0])
    x.unfold(0, 3, 1).index_fill_(0, engine.tensor([0]), 5.0)
    assert x.tolist() == [5.0, 5.0, 5.0, 4.0]


def test_fill_of_an_expanded_tensor_writes_each_place_once():
    x = engine.arange(3.0).reshape(1, 3)
    v = x.expand(4, 3)
    assert v.fill_(3.0) is v and x.tolist() == [[3.0, 3.0, 3.0]] and v.tolist() == [[3.0, 3.0, 3.0]] * 4
    assert v.zero_() is v and x.tolist() == [[0.0, 0.0, 0.0]]
    shared = "more than one element of the written-to tensor refers to a single memory location"
    with pytest.raises(RuntimeError, match=shared):
        v.fill_(engine.tensor(1.0))
    with pytest.raises(RuntimeError, match=shared):
        (engine.ones(1, 3, requires_grad=True) * 1).expand(4, 3).fill_(3.0)
    with pytest.raises(RuntimeError, match="leaf"):
        engine.ones(1, 3, requires_grad=True).expand(4, 3).zero_()
