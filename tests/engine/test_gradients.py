"""Gradients of views, of inputs of several dtypes and shapes, and of complex numbers. tests/parity runs these very functions on torch."""

from __future__ import annotations

import pytest
from leaf import approx, leaf

import engine


def test_gradients_of_views():
    x = engine.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=engine.float64, requires_grad=True)
    (x[0] * 2).sum().backward()
    (x.t()[1] * x[:, 1]).sum().backward()
    x.reshape(3, 2)[2, 1].backward()
    x.unsqueeze(0).expand(4, 2, 3)[:, 1, 0].sum().backward()
    assert x.grad.tolist() == [[2, 6, 2], [4, 10, 1]]


def test_gradient_of_an_index_used_twice():
    x = leaf(1.0, 2.0, 3.0)
    x[engine.tensor([0, 2, 0])].sum().backward()
    assert approx(x.grad, [2, 0, 1])
    x.grad = None
    (x[[0, 0]] * x[x > 1.5]).sum().backward()
    assert approx(x.grad, [5, 1, 1])


def test_gradients_keep_each_inputs_dtype():
    a = engine.ones(2, dtype=engine.float32, requires_grad=True)
    b = engine.full((2,), 2.0, dtype=engine.float64, requires_grad=True)
    h = engine.full((2,), 3.0, dtype=engine.float16, requires_grad=True)
    (a * b * h).sum().backward()
    assert (a.grad.dtype, b.grad.dtype, h.grad.dtype) == (engine.float32, engine.float64, engine.float16)
    assert (a.grad.tolist(), b.grad.tolist(), h.grad.tolist()) == ([6, 6], [3, 3], [2, 2])


def test_gradient_flows_through_a_change_of_dtype():
    x = leaf(1.5, 2.5)
    y = x.to(engine.float32)
    assert y.dtype is engine.float32
    (y * y).sum().backward()
    assert x.grad.dtype is engine.float64 and approx(x.grad, [3, 5])
    x.grad = None
    assert not x.to(engine.int64).requires_grad


def test_gradients_of_broadcast_inputs():
    a = engine.ones(3, 1, dtype=engine.float64, requires_grad=True)
    b = engine.full((4,), 2.0, dtype=engine.float64, requires_grad=True)
    c = leaf(5.0)
    (a * b + c).sum().backward()
    assert a.grad.tolist() == [[8.0]] * 3 and b.grad.tolist() == [3.0] * 4 and c.grad.item() == 12


def test_complex_gradients():
    """PyTorch's convention: dL/d(re) + i dL/d(im)."""
    z = engine.tensor([1 + 2j, -3 + 0.5j], dtype=engine.complex128, requires_grad=True)
    w = engine.tensor([0.5 - 1j, 2 + 1j], dtype=engine.complex128, requires_grad=True)
    y = z * w
    (y * y.conj()).real.sum().backward()
    assert z.grad.tolist() == pytest.approx([2.5 + 5j, -30 + 5j])
    assert w.grad.tolist() == pytest.approx([5 - 10j, 37 + 18.5j])


def test_complex_gradient_of_a_holomorphic_function():
    z = engine.tensor([0.5 + 1j], dtype=engine.complex128, requires_grad=True)
    z.exp().sum().backward(engine.tensor(1 + 0j, dtype=engine.complex128))
    import cmath

    assert z.grad.tolist() == pytest.approx([cmath.exp(0.5 + 1j).conjugate()])


def test_real_beside_complex():
    x = leaf(2.0, 3.0)
    z = engine.tensor([1 + 2j, 3 - 1j], dtype=engine.complex128, requires_grad=True)
    (x * z).imag.sum().backward()
    assert x.grad.dtype is engine.float64 and approx(x.grad, [2, -1])
    assert z.grad.tolist() == pytest.approx([2j, 3j])


def test_complex_scalar_needs_a_gradient_given():
    z = engine.tensor([1 + 2j], dtype=engine.complex128, requires_grad=True)
    with pytest.raises(RuntimeError, match="(?i)real|complex"):
        (z * z).sum().backward()
