"""What `backward` leaves in leaves: accumulation, kept and freed graphs, given gradients, an interruption, threads. tests/parity runs these very functions on torch."""

from __future__ import annotations

import threading

import pytest
from leaf import approx, leaf

import engine


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


def test_detach_cuts_and_shares():
    x = leaf(2.0, 3.0)
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.data_ptr() == y.data_ptr()
    (y * d).sum().backward()
    assert approx(x.grad, [8, 12])
    y = x * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad


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
