"""`gradcheck` and `gradgradcheck` find what is wrong. tests/parity runs these very functions on torch."""

from __future__ import annotations

import pytest
from leaf import leaf

import engine
from engine.autograd import Function


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
