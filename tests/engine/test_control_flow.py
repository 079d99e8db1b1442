"""`torch.cond`, `torch.while_loop` and scans. Expected values and refusals are PyTorch 2.13's, or follow from the arithmetic."""

from __future__ import annotations

import math

import pytest

import engine
from engine.compat._higher_order_ops import associative_scan, scan


def both(pred, x):
    return engine.cond(pred, lambda x: x.sin(), lambda x: x.cos(), (x,))


def test_cond_takes_one_way_and_its_gradient():
    x = engine.tensor(3.0, dtype=engine.float64, requires_grad=True)
    for pred, value, slope in (
        (engine.tensor(True), math.sin(3), math.cos(3)),
        (False, math.cos(3), -math.sin(3)),
        (engine.tensor([[1]]), math.sin(3), math.cos(3)),
    ):
        out = both(pred, x)
        assert out.item() == pytest.approx(value)
        assert engine.autograd.grad(out, x)[0].item() == pytest.approx(slope)
    assert engine.cond(engine.tensor(True), lambda: engine.ones(1), lambda: engine.zeros(1)).tolist() == [1]
    ran = []
    engine.cond(True, lambda: ran.append(1), lambda: ran.append(2))
    assert ran == [1]


def test_cond_refuses():
    x = engine.tensor(3.0)
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        both(engine.tensor([True, False]), x)
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor, but got 'yes'"):
        both("yes", x)
    with pytest.raises(RuntimeError, match="Expect operands to be a tuple"):
        engine.cond(True, engine.sin, engine.cos, x)
    with pytest.raises(RuntimeError, match="Expect operands to be a tuple"):
        engine.cond(True, engine.sin, engine.cos, ("x",))
    with pytest.raises(RuntimeError, match="both branches to be callable"):
        engine.cond(True, engine.sin, 3, (x,))


def test_while_loop_carries_and_is_differentiable():
    x = engine.tensor(2.0, requires_grad=True)
    count, out = engine.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), (engine.tensor(0), x))
    out.backward()
    assert count.item() == 3 and out.item() == 256 and x.grad.item() == 1024
    found = engine.while_loop(lambda i, d: i < 3, lambda i, d: (i + 1, {"a": d["a"] * 2}), (engine.tensor(0), {"a": engine.tensor(1.0)}))
    assert found[1]["a"].item() == 8
    assert engine.while_loop(lambda i: i < 3, lambda i: i + 1, (engine.tensor(0),)).item() == 3
    assert engine._higher_order_ops.while_loop(lambda i: False, lambda i: i + 1, (engine.tensor(0),))[0].item() == 0


def test_while_loop_refuses():
    zero = engine.tensor(0)
    with pytest.raises(RuntimeError, match=r"item 0 was \(\) torch.int64 and became \(\) torch.float32"):
        engine.while_loop(lambda i: i < 3, lambda i: (i + 1.5,), (zero,))
    with pytest.raises(RuntimeError, match=r"\(1,\) torch.float32 and became \(2,\)"):
        engine.while_loop(lambda x: x.sum() < 3, lambda x: engine.cat([x, x]), (engine.ones(1),))
    with pytest.raises(RuntimeError, match="to return what it takes"):
        engine.while_loop(lambda i: i < 3, lambda i: (i + 1, i), (zero,))
    with pytest.raises(RuntimeError, match="Expect carried_inputs to be a tuple"):
        engine.while_loop(lambda i: i < 3, lambda i: (i + 1,), zero)
    with pytest.raises(RuntimeError, match="the result of cond_fn to be bool or single-element"):
        engine.while_loop(lambda i: engine.ones(2), lambda i: (i + 1,), (zero,))


def test_scans_carry_along_a_dimension():
    x = engine.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    carry, sums = scan(lambda carry, x: (carry + x, carry * x), engine.tensor([10.0, 20.0]), x, dim=1)
    assert carry.tolist() == [16, 35] and sums.tolist() == [[10, 22, 39], [80, 120, 174]]
    assert engine.autograd.grad(sums.sum(), x)[0].tolist() == [[15, 14, 13], [31, 30, 29]]
    carry, sums = scan(lambda carry, x: (carry + x["a"], carry * x["a"]), engine.zeros(3), {"a": x}, reverse=True)
    assert carry.tolist() == [5, 7, 9] and sums.tolist() == [[4, 10, 18], [0, 0, 0]]

    a, b = engine.tensor([2.0, 3.0, 5.0, 0.5, 4.0], requires_grad=True), engine.tensor([1.0, 1.0, 2.0, 3.0, 1.0])
    join = lambda left, right: (left[0] * right[0], right[0] * left[1] + right[1])  # noqa: E731  of x -> a x + b, as state space models have it
    product, value = associative_scan(join, (a, b), 0, combine_mode="generic")
    assert product.tolist() == [2, 6, 30, 15, 60] and value.tolist() == [1, 4, 22, 14, 57]
    assert engine.autograd.grad(value[-1], a)[0].tolist() == [0, 1 * 5 * 0.5 * 4, 4 * 0.5 * 4, 22 * 4, 14]
    backwards = associative_scan(lambda left, right: left + right, x, -1, reverse=True, combine_mode="generic")
    assert backwards.tolist() == [[6, 5, 3], [15, 11, 6]]


def test_scans_refuse():
    x, add = engine.ones(2, 3), lambda left, right: left + right
    with pytest.raises(ValueError, match="For combine_mode='pointwise', all input tensors need to be on CUDA or XPU"):
        associative_scan(add, x, 0)
    with pytest.raises(ValueError, match="must be a callable, but got 3"):
        associative_scan(3, x, 0, combine_mode="generic")
    with pytest.raises(ValueError, match="must either 'pointwise' or 'generic', but got x"):
        associative_scan(add, x, 0, combine_mode="x")
    with pytest.raises(ValueError, match="All xs leaves must"):
        associative_scan(add, (x[:, :0], x), 1, combine_mode="generic")
    with pytest.raises(IndexError, match="Dimension out of range"):
        associative_scan(add, x, 2, combine_mode="generic")
    with pytest.raises(RuntimeError, match="All xs leaves must"):
        scan(add, x[0], x[:0])
    with pytest.raises(RuntimeError, match=r"combine_fn_output .* item 0 was \(1,\) torch.float32 and became \(3,\)"):
        scan(lambda carry, x: (carry + x, x), engine.ones(1), x)
