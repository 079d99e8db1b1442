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
