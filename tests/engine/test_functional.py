"""Whole derivatives of functions, and what checks them: literals are PyTorch's answers, or follow from the function by hand."""

from __future__ import annotations

import pytest

import engine
from engine.autograd import functional as whole

X = engine.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=engine.float64)
STRATEGIES = ("reverse-mode", "forward-mode")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_jacobian_of_several_functions_of_several_inputs(strategy):
    x, y = engine.tensor([1.0, 2.0]), engine.tensor([3.0])
    rows = whole.jacobian(lambda a, b: (a * b, a.sum() * b * b), (x, y), strategy=strategy)
    assert [[block.tolist() for block in row] for row in rows] == [[[[3, 0], [0, 3]], [[1], [2]]], [[[9, 9]], [[18]]]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_jacobian_where_memory_is_transposed(strategy):
    """The seeds have a 1 in every place, however the input and the output lie in memory."""
    found = whole.jacobian(lambda x: x.t() * 2, X, strategy=strategy)
    assert found.shape == (3, 2, 2, 3) and found.sum().item() == 12 and found[2, 1, 1, 2].item() == 2
    assert whole.jacobian(lambda x: x * 2, X.t(), strategy=strategy).sum().item() == 12


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_jacobian_that_is_differentiated(strategy):
    x = engine.tensor([2.0, 3.0], requires_grad=True)
    whole.jacobian(lambda x: x**3, x, create_graph=True, strategy=strategy).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [12, 18]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_output_that_depends_on_nothing(strategy):
    x = engine.ones(2)
    assert whole.jacobian(lambda x: engine.ones(3), x, strategy=strategy).tolist() == [[0, 0]] * 3
    with pytest.raises(RuntimeError, match="strict mode"):
        whole.jacobian(lambda x: engine.ones(3), x, strict=True, strategy=strategy)
    for product in (whole.vjp, whole.jvp):
        assert product(lambda x: engine.ones(2), x, x)[1].tolist() == [0, 0]
        with pytest.raises(RuntimeError, match="strict mode"):
            product(lambda x: engine.ones(2), x, x, strict=True)


def test_products_with_the_jacobian():
    x, v = engine.tensor([1.0, 2.0, 3.0]), engine.tensor([1.0, 10.0, 100.0])
    value, pulled = whole.vjp(lambda x: x * x.sum(), x, v)
    assert value.tolist() == [6, 12, 18] and pulled.tolist() == [327, 381, 921]
    (first, second), (along, same) = whole.jvp(lambda x: (x * x.sum(), x), x, v)
    assert first.tolist() == [6, 12, 18] and second.tolist() == x.tolist()
    assert along.tolist() == [117, 282, 933] and same.tolist() == v.tolist()


def test_products_with_the_hessian():
    x, v = engine.tensor([1.0, 2.0]), engine.tensor([1.0, 10.0])
    for product in (whole.vhp, whole.hvp):
        value, found = product(lambda x: (x**3).sum() * x[0], x, v)
        assert value.item() == 9 and found.tolist() == [132, 132]
        assert product(lambda x: x.sum(), x, v)[1].tolist() == [0, 0]
    for strategy in STRATEGIES:
        found = whole.hessian(lambda x: (x**3).sum() * x[0], x, outer_jacobian_strategy=strategy)
        assert found.tolist() == [[12, 12], [12, 12]]


def test_forward_mode_refuses_what_was_overwritten():
    def f(x):
        y = x * 1
        z = y * y
        y.add_(1)
        return z

    for product in (whole.vjp, whole.jvp):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product(f, engine.ones(2), engine.ones(2))


def test_gradcheck_of_outputs_that_carry_no_gradient():
    """As in PyTorch: they are left out beside others, and alone they may not depend on the inputs."""
    x = engine.ones(2, dtype=engine.float64, requires_grad=True)
    check = engine.autograd.gradcheck
    assert check(lambda x: (x.detach() * 0 + 7, x * x), (x,)) and check(lambda x: engine.ones(2), (x,))
    with pytest.raises(RuntimeError):
        check(lambda x: x.detach() * 2, (x,))
    with pytest.raises(ValueError, match="no tensor"):
        check(lambda x: 3.0, (x,))


def test_gradcheck_leaves_the_inputs_as_they_were():
    x = engine.ones(2, dtype=engine.float64, requires_grad=True)

    def fails_later(x):
        if not engine.is_grad_enabled():
            raise ZeroDivisionError
        return x * 1

    with pytest.raises(ZeroDivisionError):
        engine.autograd.gradcheck(fails_later, (x,))
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: whole.jacobian(lambda x: x, engine.ones(1), strategy="sideways"), AssertionError, "Expected strategy"),
        (lambda: whole.vjp(lambda x: x, engine.ones(2)), RuntimeError, "v can only be None"),
        (lambda: whole.jvp(lambda x: x, engine.ones(2), engine.ones(3)), RuntimeError, "v has invalid size"),
        (lambda: whole.jvp(lambda x: x, engine.ones(2), (engine.ones(2),) * 2), RuntimeError, "invalid length: should be 1 but got 2"),
        (lambda: whole.vjp(lambda x: 3, engine.ones(2)), TypeError, "outputs must be either a Tensor"),
        (lambda: whole.hessian(lambda x: x, engine.ones(2)), RuntimeError, "single element"),
    ],
)
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("product", [whole.vhp, whole.hvp])
def test_second_derivatives_of_a_constant(product):
    value, found = product(lambda x: engine.ones(()), engine.ones(3), engine.ones(3))
    assert value.item() == 1 and found.tolist() == [0, 0, 0]
    assert whole.hessian(lambda x: engine.ones(()), engine.ones(2)).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(RuntimeError, match="strict mode"):
        product(lambda x: engine.ones(()), engine.ones(3), engine.ones(3), strict=True)


@pytest.mark.parametrize("product", [whole.vjp, whole.jvp])
def test_a_constant_jacobian_is_refused_in_strict_mode_only_where_it_is_to_be_differentiated(product):
    def sums(x):
        return x.sum() * 2

    v = engine.ones(()) if product is whole.vjp else engine.ones(3)
    assert product(sums, engine.ones(3), v, strict=True)[1].sum().item() == 6
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function is independent of input 0"):
        product(sums, engine.ones(3), v, create_graph=True, strict=True)
