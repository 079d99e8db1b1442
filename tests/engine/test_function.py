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


class Sinh(Function):
    """Its intermediate values are results too, so that the second derivative finds what they came from."""

    @staticmethod
    def forward(ctx, x):
        up, down = x.exp(), (-x).exp()
        ctx.save_for_backward(up, down)
        return (up - down) / 2, up, down

    @staticmethod
    def backward(ctx, g, g_up, g_down):
        up, down = ctx.saved_tensors
        return g * (up + down) / 2 + g_up * up - g_down * down


def test_a_saved_result_that_the_caller_dropped_still_has_its_derivative():
    x = leaf(0.5)
    y = Sinh.apply(x)[0]
    (first,) = grad(y, x, create_graph=True)
    (second,) = grad(first, x)
    assert approx(second, x.detach().sinh())
    y, up, _ = Sinh.apply(x)
    (first,) = grad(y, x, create_graph=True)
    assert approx(grad(first, up)[0], 0.5)  # one that was not dropped is itself


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


class Doubled(Function):
    @staticmethod
    def forward(ctx, x, *others):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_function_that_saves_no_tensors_can_be_walked_twice():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.factor = 3
            return x * ctx.factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor

    x = leaf(2.0)
    y = Scaled.apply(x)
    y.backward()
    y.backward()
    assert approx(x.grad, 6)


def test_the_node_shows_what_forward_left():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            ctx.save_for_backward(x)
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    y = Scaled.apply(leaf(2.0), 4)
    assert y.grad_fn.factor == 4 and approx(y.grad_fn.saved_tensors[0], 2) and y.grad_fn.needs_input_grad == (True, False)
    assert not hasattr(y.grad_fn, "weight")
    y.backward()
    assert y.grad_fn.factor == 4
    with pytest.raises(RuntimeError, match="a second time"):
        _ = y.grad_fn.saved_tensors


def test_arguments_by_keyword_and_defaults():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, factor=2):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    class SetUp(Function):
        @staticmethod
        def forward(x, factor=2):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.factor = inputs

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    for function in (Scaled, SetUp):
        x = leaf(1.5)
        y = function.apply(x, factor=5) + function.apply(x)
        y.backward()
        assert approx(y, 10.5) and approx(x.grad, 7)


def test_results_that_are_no_tensors_have_no_gradient():
    given = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            return 3.0, x * 2, None, x * 5

        @staticmethod
        def backward(ctx, a, b, c, d):
            given.append((a, c, d.item()))
            return b * 2 + d * 5

    x = leaf(1.0)
    Mixed.apply(x)[1].backward()
    assert given == [(None, None, 0.0)] and approx(x.grad, 2)


def test_an_input_without_tangent_has_one_of_zeros():
    seen = []

    class Product(Function):
        @staticmethod
        def forward(x, y, n):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs[:2])

        @staticmethod
        def jvp(ctx, tx, ty, tn):
            x, y = ctx.saved_tensors
            seen.append((ty.tolist(), tn))
            return tx * y + x * ty

    _, tangent = engine.func.jvp(lambda x: Product.apply(x, engine.tensor([3.0, 4.0]), 7), (engine.ones(2),), (engine.ones(2),))
    assert tangent.tolist() == [3, 4] and seen == [([0, 0], None)]


def test_a_changed_input_must_be_returned():
    class Lost(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not returned as output"):
        Lost.apply(leaf(1.0) * 1)


WRONG = {
    "a number": (lambda g: 3.0, (), "expected Variable or None"),
    "for a number": (
        lambda g: (g, g),
        (3,),
        "returned a gradient different than None at position 2, but the corresponding forward input was not",
    ),
}


@pytest.mark.parametrize("rule, others, told", WRONG.values(), ids=WRONG)
def test_what_backward_may_not_give(rule, others, told):
    class Wrong(Doubled):
        @staticmethod
        def backward(ctx, g):
            return rule(g)

    with pytest.raises(RuntimeError, match=told):
        Wrong.apply(leaf(1.0), *others).backward()


def test_an_instance_warns_and_cannot_be_called():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        one = Doubled()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        one(leaf(1.0))
    assert approx(one.apply(leaf(1.0)), 2)


def test_inplace_function():
    class Twice(engine.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x, inplace=False):
            if not inplace:
                return x * 2
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    for inplace in (True, False):
        x = leaf(1.5)
        y = x * 1
        z = Twice.apply(y, inplace)
        z.backward()
        assert (z is y) is inplace and approx(z, 3) and approx(x.grad, 2)
