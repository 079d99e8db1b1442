"""Hooks of tensors, leaves and nodes, and `retain_grad`. tests/parity runs these very functions on torch."""

from __future__ import annotations

import pytest
from leaf import approx, leaf

import engine
from engine.autograd import grad


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


def test_grad_of_no_leaf():
    x = leaf(2.0)
    y = x * 3
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being accessed") as told:
        assert y.grad is None
    assert told[0].filename.endswith("test_hooks.py")  # the program's line
    y.retain_grad()
    assert y.grad is None and x.grad is None and y.detach().grad is None  # without a word: warnings are errors here


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


def test_hooks_of_a_tensor_run_before_those_of_its_node():
    x = leaf(2.0)
    y = x * 3
    said = []
    y.grad_fn.register_prehook(lambda grads: said.append("node"))
    y.register_hook(lambda g: said.append("tensor"))
    y.grad_fn.register_hook(lambda into, out: said.append("after"))
    y.backward()
    assert said == ["tensor", "node", "after"]


def test_what_a_node_hook_changes_is_not_the_gradient_of_the_tensor():
    x = leaf(2.0)
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 5,))
    y.register_hook(lambda g: g * 7)
    y.retain_grad()
    (y * 2).backward()
    assert approx(y.grad, 14) and approx(x.grad, 2 * 7 * 5 * 3)


def test_a_pass_that_ends_at_a_tensor_leaves_what_made_it_alone():
    x = leaf(2.0)
    y = x.exp()
    said = []
    y.grad_fn.register_prehook(lambda grads: said.append("before"))
    y.grad_fn.register_hook(lambda into, out: said.append("after"))
    (g,) = grad(y * 3, y)
    assert approx(g, 3) and said == []
    y.backward()  # nothing behind y was freed
    assert said == ["before", "after"] and approx(x.grad, 7.389056)


def test_hooks_of_a_leafs_node_run_only_where_its_gradient_comes_to_rest():
    x = leaf(2.0)
    node = (x * 1).grad_fn.next_functions[0][0]
    said = []
    node.register_prehook(lambda grads: said.append("before"))
    node.register_hook(lambda into, out: said.append("after"))
    (g,) = grad(x * 3, x)
    assert approx(g, 3) and said == []
    (x * 3).backward()
    assert said == ["before", "after"]


WRONG = {
    "hook of a tensor, a number": (lambda y: y.register_hook(lambda g: 3), TypeError, "expected Variable, but hook returned 'int'"),
    "hook of a tensor, another dtype": (
        lambda y: y.register_hook(lambda g: g.half()),
        RuntimeError,
        r"has changed the type of value \(was torch.DoubleTensor got torch.HalfTensor\)",
    ),
    "hook of a tensor, another shape": (lambda y: y.register_hook(lambda g: g[None]), RuntimeError, "has changed the size of value"),
    "before a step, no tuple": (
        lambda y: y.grad_fn.register_prehook(lambda grads: grads[0]),
        TypeError,
        "expected tuple, but hook returned 'Tensor'",
    ),
    "before a step, a number": (
        lambda y: y.grad_fn.register_prehook(lambda grads: (3,)),
        TypeError,
        "expected Variable, but hook returned 'int'",
    ),
    "before a step, too many": (
        lambda y: y.grad_fn.register_prehook(lambda grads: (*grads, *grads)),
        RuntimeError,
        r"has returned an incorrect number of values \(got 2, but expected 1\)",
    ),
    "after a step, a number": (
        lambda y: y.grad_fn.register_hook(lambda into, out: (3,)),
        TypeError,
        "expected Variable, but hook returned 'int'",
    ),
    "after a step, another dtype": (
        lambda y: y.grad_fn.register_hook(lambda into, out: (into[0].half(),)),
        RuntimeError,
        "has changed the type of value",
    ),
}


@pytest.mark.parametrize("hang, kind, told", WRONG.values(), ids=WRONG)
def test_what_a_hook_may_not_give(hang, kind, told):
    x = leaf(2.0)
    y = x.exp()
    hang(y)
    with pytest.raises(kind, match=told):
        y.backward()
    assert x.grad is None


def test_hooks_of_a_programs_own_function_see_its_tensors_only():
    class Scaled(engine.autograd.Function):
        @staticmethod
        def forward(ctx, factor, x, name, y):
            ctx.factor = factor
            return x * factor + y

        @staticmethod
        def backward(ctx, g):
            return None, g * ctx.factor, None, None

    x, seen = engine.ones(2, requires_grad=True), []
    z = Scaled.apply(3.0, x, "name", engine.ones(2))
    z.grad_fn.register_hook(lambda into, out: seen.append([None if g is None else g.tolist() for g in into]))
    assert [node is None for node, _ in z.grad_fn.next_functions] == [False, True]
    z.sum().backward()
    assert seen == [[[3, 3], None]]


def test_a_leaf_that_asks_for_no_gradient_any_more_gets_none():
    x, seen = engine.ones(2, requires_grad=True), []
    x.register_hook(lambda g: seen.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("after"))
    y = (x * 3).sum()
    x.requires_grad_(False)
    y.backward(retain_graph=True)
    assert x.grad is None and seen == ["tensor", "after"]
    x.requires_grad_()
    assert engine.autograd.grad(y, x, retain_graph=True)[0].tolist() == [3, 3]
    y.backward()
    assert x.grad.tolist() == [3, 3] and seen == ["tensor", "after", "tensor", "tensor", "after"]
