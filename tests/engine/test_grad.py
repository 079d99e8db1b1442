"""`grad`, of the first and of higher order. tests/parity runs these very functions on torch."""

from __future__ import annotations

import warnings

import pytest
from leaf import approx, leaf

import engine
from engine.autograd import grad


def test_grad_changes_no_leaf():
    x, y = leaf(2.0), leaf(3.0)
    dx, dy = grad(x * y, (x, y))
    assert approx(dx, 3) and approx(dy, 2) and x.grad is None and y.grad is None


def test_grad_with_respect_to_a_result():
    x = leaf(2.0)
    y = x * x
    z = y * y
    assert approx(grad(z, y, retain_graph=True)[0], 8)
    assert approx(grad(z, (y, x))[1], 32)


def test_grad_of_the_output_itself():
    x = leaf(2.0)
    y = x * 3
    dy, dx = grad(y, (y, x))
    assert approx(dy, 1) and approx(dx, 3)


def test_grad_of_unused():
    x, y = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used in the graph"):
        grad(x * x, (x, y))
    assert grad(x * x, (x, y), allow_unused=True)[1] is None
    assert approx(grad(x * x, (x, y), materialize_grads=True)[1], 0)
    assert [grad(x * x, (x, y), materialize_grads=True, create_graph=c)[1].requires_grad for c in (False, True)] == [False, True]
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(x * x, engine.ones(()))
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but got NoneType"):
        grad(x * x, (x, None))


def test_grad_of_several_outputs_with_seeds():
    x = leaf(1.0, 2.0)
    seeds = [engine.tensor([1.0, 10.0], dtype=engine.float64), None]
    (dx,) = grad([x * x, x.sum()], [x], seeds)
    assert approx(dx, [3, 41])


def test_grad_does_not_run_what_it_does_not_need():
    """Only nodes on a path to the inputs run: the hook on the other branch stays silent."""
    x, y = leaf(2.0), leaf(3.0)
    calls = []
    side = y * y
    side.register_hook(lambda g: calls.append("side"))
    grad(x * x + side, x)
    assert calls == []


# -- higher order ----------------------------------------------------------------------------------------------------------


def test_third_derivative():
    x = leaf(2.0)
    y = x * x * x * x
    (first,) = grad(y, x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x, create_graph=True)
    (fourth,) = grad(third, x)
    assert [d.item() for d in (first, second, third, fourth)] == pytest.approx([32, 48, 48, 24])


def test_third_derivative_of_tanh():
    x = leaf(0.5)
    d = x.tanh()
    for _ in range(3):
        (d,) = grad(d, x, create_graph=True)
    t = 0.46211715726000973
    assert approx(d, -2 * (1 - t * t) * (1 - 3 * t * t))


def test_backward_with_create_graph():
    x = leaf(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of a cycle here
        (x * x * x).backward(create_graph=True)
    first = x.grad
    assert first.requires_grad and approx(first, 27)
    x.grad = None
    first.backward()
    assert approx(x.grad, 18)


def test_gradient_penalty():
    x, w = leaf(1.0, 2.0), leaf(0.5, -0.25)
    y = (x * w).tanh().sum()
    (g,) = grad(y, x, create_graph=True)
    (g * g).sum().backward()
    # d/dw sum (w (1 - tanh(xw)^2))^2, by hand
    from math import tanh

    expected = []
    for a, b in ((1.0, 0.5), (2.0, -0.25)):
        t = tanh(a * b)
        s = 1 - t * t
        expected.append(2 * b * s * (s - 2 * a * b * t * s))
    assert approx(w.grad, expected)


def test_hessian_of_a_matrix_product():
    a, b = engine.ones(2, 3, dtype=engine.float64, requires_grad=True), engine.ones(3, 2, dtype=engine.float64, requires_grad=True)
    y = ((a @ b) * (a @ b)).sum()
    (da,) = grad(y, a, create_graph=True)
    (db,) = grad(da.sum(), b)
    assert db.tolist() == [[24.0, 24.0]] * 3
