"""Ops compute on to infinities and nans, as PyTorch's do, also where the program has NumPy raise errors about them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy
import pytest

import engine
from engine.nn import functional as F

inf, nan = float("inf"), float("nan")


@contextmanager
def warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


STRICT = [lambda: numpy.errstate(all="raise"), warnings_are_errors]
FUNCTIONS: dict[str, tuple[Callable, list, list]] = {  # name -> function, result and gradient at 0, -1, 1e-30, 200 and 3e38
    "log": (lambda x: x.log(), [-inf, nan, -69.07755279, 5.298317367, 88.59689], [inf, -1, 1e30, 0.005, 0]),
    "reciprocal": (lambda x: 1 / x, [inf, -1, 1e30, 0.005, 0], [-inf, -1, -inf, -2.5e-5, 0]),
    "sqrt": (lambda x: x.sqrt(), [0, nan, 1e-15, 14.14213562, 1.7320508e19], [inf, nan, 5e14, 0.03535534, 2.8867514e-20]),
    "exp": (lambda x: x.exp(), [1, 0.36787944, 1, inf, inf], [1, 0.36787944, 1, inf, inf]),
    "by zero": (lambda x: x / 0, [nan, -inf, inf, inf, inf], [inf, inf, inf, inf, inf]),
    "softmax": (lambda x: x.softmax(0), [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]),
    "square": (lambda x: x * x, [0, 1, 0, 40000, inf], [0, -2, 2e-30, 400, inf]),
}


@pytest.mark.parametrize("strict", STRICT)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_gradients(name: str, strict: Callable) -> None:
    function, expected, slopes = FUNCTIONS[name]
    with strict():
        x = engine.tensor([0, -1, 1e-30, 200, 3e38], requires_grad=True)
        y = function(x)
        y.sum().backward()
    numpy.testing.assert_allclose(y.detach().numpy(), numpy.array(expected, "float32"), rtol=1e-5, atol=1e-37)
    numpy.testing.assert_allclose(x.grad.numpy(), numpy.array(slopes, "float32"), rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("strict", STRICT)
@pytest.mark.parametrize("size", [5, 3000, 300_000])
def test_writes_are_whole(size: int, strict: Callable) -> None:
    with strict():
        x, y = engine.full((size,), 3e38), engine.zeros(size, 2).t()[0]
        x.mul_(10)
        y.div_(0)
        z = engine.zeros(size).log_()
    assert x.eq(inf).all() and y.isnan().all() and z.eq(-inf).all()


def trained() -> list[engine.Tensor]:
    """Weights after a step whose gradients are too small for float32, and a sum of gradients that is too large."""
    engine.manual_seed(0)
    model = engine.nn.Linear(3, 2)
    optimizer = engine.optim.Adam(model.parameters(), lr=0.1, eps=0)
    loss = F.cross_entropy(model(engine.ones(4, 3) * 1e-25), engine.tensor([0, 1, 0, 0]))
    (loss * 1e-15).backward()
    optimizer.step()
    total = engine.full((3,), 3e38, requires_grad=True)
    (total + total).sum().backward(engine.tensor(3e38))
    return [model.weight, model.bias, total.grad]


@pytest.mark.parametrize("strict", STRICT)
def test_a_training_step(strict: Callable) -> None:
    expected = trained()
    with strict():
        found = trained()
    engine.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    assert found[2].eq(inf).all()


def test_what_a_program_computes_in_its_own_function_raises_as_it_asked() -> None:
    class Own(engine.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return engine.from_numpy(numpy.log(numpy.zeros(2, "float32")))

    x = engine.ones(2, requires_grad=True)
    with numpy.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        Own.apply(x).sum().backward()
