"""Checkpoints: the gradients of the plain program, also of random parts. tests/parity runs this file on torch itself."""

from __future__ import annotations

import pytest
from leaf import leaf

import engine
from engine.utils.checkpoint import checkpoint, checkpoint_sequential

FORMS = pytest.mark.parametrize("use_reentrant", [False, True])


def block(x, w):
    return engine.nn.functional.dropout(engine.tanh(engine.tanh(x @ w) @ w), 0.5)


@FORMS
def test_gradients_and_random_numbers_are_the_plain_program_s(use_reentrant):
    found = []
    for plain in (True, False):
        engine.manual_seed(3)
        w = engine.rand(6, 6, dtype=engine.float64).requires_grad_()
        x = engine.rand(4, 6, dtype=engine.float64).requires_grad_()
        h = block(x, w) if plain else checkpoint(block, x, w, use_reentrant=use_reentrant)
        h = block(h, w) if plain else checkpoint(block, h, w, use_reentrant=use_reentrant)
        (h * h).sum().backward()
        found.append([*x.grad.flatten().tolist(), *w.grad.flatten().tolist(), engine.rand(1).item()])
    assert found[0] == pytest.approx(found[1])


@FORMS
def test_sequences_in_segments(use_reentrant):
    engine.manual_seed(0)
    net = engine.nn.Sequential(*[engine.nn.Linear(3, 3) for _ in range(5)])
    x = engine.ones(2, 3, requires_grad=True)
    net(x).sum().backward()
    expected, x.grad = x.grad.tolist(), None
    checkpoint_sequential(net, 2, x, use_reentrant=use_reentrant).sum().backward()
    assert x.grad.tolist() == expected


def test_keywords_nests_and_higher_derivatives():
    a, b = leaf(0.5, 1.0), leaf(2.0, 3.0)
    out = checkpoint(lambda x, *, y: {"o": [(x * y).sin()]}, a, y=b, use_reentrant=False)["o"][0].sum()
    first = engine.autograd.grad(out, (a, b), create_graph=True)
    expected = engine.autograd.grad((a * b).sin().sum(), (a, b), create_graph=True)
    assert first[0].tolist() == expected[0].tolist() and first[1].tolist() == expected[1].tolist()
    (second,) = engine.autograd.grad(first[0].sum(), a)
    assert second.tolist() == pytest.approx(engine.autograd.grad(expected[0].sum(), a)[0].tolist())


def test_a_checkpoint_in_a_checkpoint():
    a = leaf(0.5, 1.0)

    def inner(x):
        return checkpoint(lambda y: y.exp().sin(), x, use_reentrant=False).cos()

    checkpoint(inner, a, use_reentrant=False).sum().backward()
    b = leaf(0.5, 1.0)
    b.exp().sin().cos().sum().backward()
    assert a.grad.tolist() == pytest.approx(b.grad.tolist())


def test_two_passes_through_one_checkpoint():
    a = leaf(2.0)
    out = checkpoint(lambda x: x.exp().exp(), a, use_reentrant=False).sum()
    (first,) = engine.autograd.grad(out, a, retain_graph=True)
    assert engine.autograd.grad(out, a)[0].item() == first.item()


def test_what_differs_the_second_time_is_refused():
    calls = []

    def other_shape(x):
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.reshape(1, 2).sin()

    with pytest.raises(RuntimeError, match="different metadata"):
        checkpoint(other_shape, leaf(1.0, 2.0), use_reentrant=False).sum().backward()
    calls.clear()

    def less(x):
        calls.append(1)
        return x.sin().exp() if len(calls) == 1 else x.sin()

    with pytest.raises(RuntimeError, match="different number of tensors"):
        checkpoint(less, leaf(1.0, 2.0), use_reentrant=False).sum().backward()


def test_refusals():
    a = leaf(1.0)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(lambda x: x, a, use_reentrant=False, determinism_check="x")
    with pytest.raises(ValueError, match="keyword"):
        checkpoint(lambda x, y=1: x, a, y=2, use_reentrant=True)
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(lambda x: x, a, use_reentrant=True, context_fn=lambda: (None, None))
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(lambda x: x * 2, a)
    with pytest.warns(UserWarning, match="requires_grad=True"):
        checkpoint(lambda x: x * 2, engine.ones(1), use_reentrant=True)
    with pytest.raises(RuntimeError, match="incompatible with"):
        engine.autograd.grad(checkpoint(lambda x: x * 2, a, use_reentrant=True).sum(), a)


def test_contexts_stand_around_both_runs():
    seen = []

    class Noting:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            seen.append(self.name)

        def __exit__(self, *exc):
            pass

    out = checkpoint(lambda x: x.exp(), leaf(1.0), use_reentrant=False, context_fn=lambda: (Noting("first"), Noting("again")))
    out.sum().backward()
    assert seen == ["first", "again"]


@FORMS
def test_in_place_layers_inside(use_reentrant):
    norm, conv = engine.nn.BatchNorm2d(2), engine.nn.Conv2d(2, 3, 1)
    x = engine.randn(2, 2, 3, 3)

    def grads(call):
        source = x.clone().requires_grad_()
        call(lambda a: conv(engine.nn.functional.relu(norm(a), inplace=True)), source).sum().backward()
        return source.grad

    expected = grads(lambda f, a: f(a))
    assert engine.allclose(grads(lambda f, a: checkpoint(f, a, use_reentrant=use_reentrant)), expected, rtol=1e-5)
