"""What autograd means, in PyTorch's terms. tests/parity runs these very functions on torch: each expectation is PyTorch's too."""

from __future__ import annotations

import threading
import warnings

import pytest

import engine
from engine.autograd import Function, grad


def leaf(*values):
    return engine.tensor(values if len(values) != 1 else values[0], dtype=engine.float64, requires_grad=True)


def approx(tensor, expected):
    return tensor.detach().tolist() == pytest.approx(expected)


# -- backward --------------------------------------------------------------------------------------------------------------


def test_gradients_accumulate():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert approx(x.grad, [5, 7])
    x.grad = None
    x.sum().backward()
    assert approx(x.grad, [1, 1])


def test_accumulation_writes_into_the_same_grad():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    kept = x.grad
    x.sum().backward()
    assert approx(x.grad, [2, 2]) and x.grad is kept


def test_one_tensor_used_twice():
    x = leaf(3.0)
    y = x * x
    (y * y + y).backward()
    assert approx(x.grad, 4 * 27 + 2 * 3)


def test_diamond():
    x = leaf(2.0)
    a = x.exp()
    (a.tanh() * a + a).backward()
    e = 7.38905609893065
    t = 0.9999992358443407
    assert approx(x.grad, e * (t + e * (1 - t * t) + 1))


def test_a_leaf_alone():
    x = leaf(2.0)
    x.backward()
    assert approx(x.grad, 1)


def test_backward_with_a_given_gradient():
    x = leaf(1.0, 2.0, 3.0)
    (x * x).backward(engine.tensor([1.0, 0.0, -1.0], dtype=engine.float64))
    assert approx(x.grad, [2, 0, -6])


def test_several_roots():
    x = leaf(2.0)
    a = x * x
    b = a * x
    engine.autograd.backward([a, b])
    assert approx(x.grad, 4 + 12)


def test_non_scalar_needs_a_gradient():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    assert x.grad is None


def test_gradient_of_the_wrong_shape():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="(?i)mismatch in shape"):
        (x * 2).backward(engine.ones(3, dtype=engine.float64))


def test_no_graph():
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        engine.ones(()).backward()


def test_second_backward_needs_retain_graph():
    x = leaf(2.0)
    y = x.exp()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    assert approx(x.grad, 7.38905609893065)


def test_second_backward_without_saved_values():
    """Nothing was saved, so nothing is missing."""
    x = leaf(2.0)
    y = x + x
    y.backward()
    y.backward()
    assert approx(x.grad, 4)


def test_retain_graph():
    x = leaf(2.0)
    y = x * x * x
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    assert approx(x.grad, 36)
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_shared_part_of_a_graph_is_freed():
    x = leaf(2.0)
    shared = x.exp()
    (shared * 2).backward()
    with pytest.raises(RuntimeError, match="a second time"):
        (shared * 3).backward()


def test_inputs_restrict_accumulation():
    x, y = leaf(2.0), leaf(3.0)
    z = x * y
    z.backward(inputs=[x], retain_graph=True)
    assert approx(x.grad, 3) and y.grad is None
    z.backward(inputs=y)
    assert approx(x.grad, 3) and approx(y.grad, 2)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * y).backward(inputs=[])


def test_a_leaf_owns_its_gradient():
    x, y = leaf(1.0, 1.0), leaf(1.0, 1.0)
    (x + y).sum().backward()
    with engine.no_grad():
        x.grad.mul_(0)
    assert approx(y.grad, [1, 1])


def test_the_given_gradient_is_not_kept():
    x, g = leaf(1.0, 1.0), engine.ones(2, dtype=engine.float64)
    x.backward(g)
    x.grad.mul_(5)
    assert g.tolist() == [1, 1]


def test_requires_grad_spreads():
    x, c = leaf(1.0), engine.ones(())
    assert (x * c).requires_grad and not (c * c).requires_grad
    assert (x * c).grad_fn is not None and (c * c).grad_fn is None and x.grad_fn is None
    assert x.is_leaf and c.is_leaf and not (x * c).is_leaf


def test_only_floating_tensors_require_grad():
    with pytest.raises(RuntimeError, match="(?i)floating point"):
        engine.ones(2, dtype=engine.int64).requires_grad_()
    with pytest.raises(RuntimeError):
        engine.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf variables"):
        (leaf(1.0) * 2).requires_grad_(False)


def test_assigning_grad():
    x = leaf(1.0, 2.0)
    x.grad = engine.ones(2, dtype=engine.float64)
    (x * 2).sum().backward()
    assert approx(x.grad, [3, 3])
    with pytest.raises(RuntimeError, match="(?i)size|shape"):
        x.grad = engine.ones(3, dtype=engine.float64)
    with pytest.raises(TypeError):
        x.grad = 1.0


# -- grad ------------------------------------------------------------------------------------------------------------------


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
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        grad(x * x, (x, y))
    assert grad(x * x, (x, y), allow_unused=True)[1] is None
    assert approx(grad(x * x, (x, y), materialize_grads=True)[1], 0)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(x * x, engine.ones(()))


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


# -- hooks -----------------------------------------------------------------------------------------------------------------


def test_tensor_hook_sees_and_changes_the_gradient():
    x = leaf(2.0)
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    handle = y.register_hook(lambda g: g * 10)
    (y * y).backward()
    assert seen == [12.0] and approx(x.grad, 12 * 10 * 3)
    handle.remove()
    x.grad = None
    y = x * 3
    (y * y).backward()
    assert approx(x.grad, 36)


def test_leaf_hook():
    x = leaf(2.0)
    x.register_hook(lambda g: g + 1)
    (x * x).backward()
    assert approx(x.grad, 5)


def test_leaf_hook_runs_once_with_the_whole_gradient():
    x = leaf(2.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 3 + x * 4 + x).backward()
    assert seen == [8.0]


def test_hooks_run_in_order():
    x = leaf(2.0)
    x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    (x * 3).backward()
    assert approx(x.grad, 40)


def test_handle_is_a_context_manager():
    x = leaf(2.0)
    with x.register_hook(lambda g: g * 100):
        x.backward()
    x.backward()
    assert approx(x.grad, 101)


def test_hook_acts_in_grad_too():
    x = leaf(2.0)
    y = x * 3
    y.register_hook(lambda g: g * 2)
    assert approx(grad(y * y, x)[0], 72)


def test_hook_needs_a_gradient():
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        engine.ones(()).register_hook(lambda g: g)


def test_post_accumulate_hook():
    x = leaf(1.0, 2.0)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    (x * x).sum().backward()
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert seen == [[2, 4], [3, 5]]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_post_accumulate_hook_may_step_and_clear():
    x = leaf(1.0, 2.0)

    def step(p):
        with engine.no_grad():
            p.sub_(p.grad)
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 3).sum().backward()
    assert approx(x, [-2, -1]) and x.grad is None


def test_node_hook():
    x = leaf(2.0)
    y = x * 3
    seen = []
    y.grad_fn.register_hook(lambda into, out: seen.append((into[0].item(), out[0].item())))
    (y * y).backward()
    assert seen == [(36.0, 12.0)]


def test_hook_that_differentiates():
    """With create_graph the hook's arithmetic is part of the graph."""
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (first,) = grad(y, x, create_graph=True)
    assert approx(first, 2 * 3 * 3)
    assert approx(grad(first, x)[0], 12)


def test_retain_grad():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    x.retain_grad()
    assert y.retains_grad and not x.retains_grad
    (y * y).backward()
    assert approx(y.grad, 12) and approx(x.grad, 36)
    with pytest.raises(RuntimeError, match="retain_grad"):
        engine.ones(()).retain_grad()


def test_retain_grad_sees_what_hooks_made():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.backward()
    assert approx(y.grad, 10)


# -- detach, Function ------------------------------------------------------------------------------------------------------


def test_detach_cuts_and_shares():
    x = leaf(2.0, 3.0)
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.data_ptr() == y.data_ptr()
    (y * d).sum().backward()
    assert approx(x.grad, [8, 12])
    y = x * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad


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


def test_function_backward_returns_another_shape():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return engine.ones(3, dtype=engine.float64)

    with pytest.raises(RuntimeError, match="invalid gradient"):
        Bad.apply(leaf(1.0, 2.0)).sum().backward()


def test_function_backward_that_raises():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("mine")

    x = leaf(1.0)
    with pytest.raises(ZeroDivisionError, match="mine"):
        Bad.apply(x).backward()
    assert x.grad is None


def test_function_once_differentiable():
    from engine.autograd.function import once_differentiable

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


# -- gradcheck -------------------------------------------------------------------------------------------------------------


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].exp() * 1.01


class WrongTwice(Function):
    """The first derivative is right; the second is not, for the rule hides what it depends on."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0].detach()


def test_gradcheck_accepts_a_right_rule():
    assert engine.autograd.gradcheck(lambda x, y: (x * y).tanh() @ y, (leaf(0.5, 1.0), leaf(1.0, -2.0)))
    assert engine.autograd.gradcheck(lambda x: (x.exp(), x * x), (leaf(0.5, 1.0),))


def test_gradcheck_finds_a_wrong_rule():
    with pytest.raises(RuntimeError, match="(?s)Jacobian mismatch.*numerical.*analytical"):
        engine.autograd.gradcheck(Wrong.apply, (leaf(0.5, 1.0),))
    assert engine.autograd.gradcheck(Wrong.apply, (leaf(0.5, 1.0),), raise_exception=False) is False


def test_gradgradcheck_finds_a_wrong_second_derivative():
    assert engine.autograd.gradcheck(WrongTwice.apply, (leaf(0.5, 1.0),))
    assert engine.autograd.gradgradcheck(WrongTwice.apply, (leaf(0.5, 1.0),), raise_exception=False) is False
    assert engine.autograd.gradgradcheck(lambda x: x * x * x, (leaf(0.5, 1.0),))


def test_gradcheck_needs_something_to_check():
    with pytest.raises(ValueError, match="require"):
        engine.autograd.gradcheck(lambda x: x, (engine.ones(2, dtype=engine.float64),))


# -- views, dtypes, complex numbers ----------------------------------------------------------------------------------------


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


# -- interruption, threads -------------------------------------------------------------------------------------------------


def test_interrupt_in_mid_backward_leaves_each_leaf_untouched_or_complete():
    a, b, c = leaf(2.0), leaf(3.0), leaf(5.0)

    def interrupt(g):
        raise KeyboardInterrupt

    middle = a * b
    y = (middle * c).exp()
    middle.register_hook(interrupt)
    b.grad = engine.full((), 10.0, dtype=engine.float64)
    with pytest.raises(KeyboardInterrupt):
        (y * 1e-9).backward()
    e = 10686474581524.463 * 1e-9  # e^30
    assert a.grad is None and b.grad.item() == 10.0
    assert c.grad is None or c.grad.item() == pytest.approx(6 * e)
    assert engine.is_grad_enabled()


def test_two_threads_run_backward_on_their_own_graphs():
    found, errors = {}, []

    def work(n):
        try:
            x = leaf(float(n))
            for _ in range(50):
                x.grad = None
                (x * x * x).backward()
            found[n] = x.grad.item()
        except Exception as error:  # told to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == [] and found == {n: 3.0 * n * n for n in range(1, 5)}
