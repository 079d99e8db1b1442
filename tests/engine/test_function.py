"""`Function`, an op with a rule of the user's own. tests/parity runs these very functions on torch."""

from __future__ import annotations

import pytest
from leaf import approx, leaf

import engine
from engine.autograd import Function, grad
from engine.autograd.function import once_differentiable


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def test_function():
    x = leaf(2.0)
    y = Cube.apply(x)
    assert y.requires_grad and not y.is_leaf
    y.backward()
    assert approx(x.grad, 12)


def test_function_twice_differentiable():
    x = leaf(2.0)
    (first,) = grad(Cube.apply(x), x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    assert approx(first, 12) and approx(second, 12) and approx(grad(second, x)[0], 6)
    assert engine.autograd.gradcheck(Cube.apply, (leaf(1.5),)) and engine.autograd.gradgradcheck(Cube.apply, (leaf(1.5),))


def test_function_saves_its_output():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(0.5)
    (first,) = grad(Exp.apply(x), x, create_graph=True)
    (second,) = grad(first, x)
    assert approx(first, 1.6487212707001282) and approx(second, 1.6487212707001282)


def test_function_with_numbers_and_needs_input_grad():
    needs = []

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, other):
            ctx.factor = factor
            return x * factor + other

        @staticmethod
        def backward(ctx, g):
            needs.append(ctx.needs_input_grad)
            return g * ctx.factor, None, g

    x = leaf(2.0)
    Scale.apply(x, 5.0, engine.ones((), dtype=engine.float64)).backward()
    assert approx(x.grad, 5) and needs == [(True, False, False)]


def test_function_of_several_results():
    class Both(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return g * y + h, g * x + h

    x, y = leaf(2.0), leaf(3.0)
    product, total = Both.apply(x, y)
    (product * 10 + total).backward()
    assert approx(x.grad, 31) and approx(y.grad, 21)
    x.grad = y.grad = None
    Both.apply(x, y)[1].backward()  # the other result's gradient arrives as zeros
    assert approx(x.grad, 1) and approx(y.grad, 1)
    assert engine.autograd.gradcheck(Both.apply, (leaf(1.0, 2.0), leaf(3.0, 4.0)))


def test_function_without_materialized_gradients():
    seen = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return h * 2

    x = leaf(1.0)
    Pair.apply(x)[1].backward()
    assert seen == [(True, False)] and approx(x.grad, 2)


def test_function_with_a_result_that_has_no_gradient():
    class Halves(Function):
        @staticmethod
        def forward(ctx, x):
            sign = x * 0 + 1
            ctx.mark_non_differentiable(sign)
            return x * 0.5, sign

        @staticmethod
        def backward(ctx, g, _):
            return g * 0.5

    x = leaf(2.0)
    half, sign = Halves.apply(x)
    assert half.requires_grad and not sign.requires_grad
    half.backward()
    assert approx(x.grad, 0.5)


def test_function_with_a_setup_context():
    class Square(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(3.0)
    Square.apply(x).backward()
    assert approx(x.grad, 6)


def test_function_that_returns_its_input():
    class Pass(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = leaf(3.0)
    y = Pass.apply(x)
    assert y is not x
    y.backward()
    assert approx(x.grad, 7)


def test_function_that_writes_its_input():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(3.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y and z.item() == 6
    (z * z).backward()
    assert approx(x.grad, 24)


def test_function_saved_tensors_are_freed():
    x = leaf(2.0)
    y = Cube.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match="(?i)second time"):
        y.backward()


def test_function_backward_returns_too_few():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Bad.apply(leaf(1.0), leaf(2.0)).backward()


class Copy(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1


def test_function_backward_returns_another_shape():
    class Bad(Copy):
        @staticmethod
        def backward(ctx, g):
            return engine.ones(3, dtype=engine.float64)

    with pytest.raises(RuntimeError, match="invalid gradient"):
        Bad.apply(leaf(1.0, 2.0)).sum().backward()


def test_function_backward_that_raises():
    class Bad(Copy):
        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("mine")

    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError, match="mine"):
        Bad.apply(x).backward()
    assert x.grad is None


def test_function_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(3.0)
    assert approx(grad(Once.apply(x), x)[0], 6)
    y = Once.apply(x)
    (first,) = grad(y * y, x, create_graph=True)
    assert approx(first, 108)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.backward()
