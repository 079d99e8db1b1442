"""`differentiable=True`: a step that autograd records; derivatives by what a step depends on against central differences."""

from __future__ import annotations

import numpy
import pytest

import engine

RULES = [
    ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"weight_decay": 0.1, "maximize": True}), ("Adam", {}), ("Adam", {"amsgrad": True}),
    ("AdamW", {}), ("NAdam", {}), ("NAdam", {"decoupled_weight_decay": True}), ("RAdam", {}), ("Adamax", {}), ("Adagrad", {"lr_decay": 0.1}),
    ("Adadelta", {}), ("RMSprop", {}), ("RMSprop", {"momentum": 0.9, "centered": True}), ("Rprop", {}), ("ASGD", {"t0": 1}),
]  # fmt: skip
IDS = [f"{name}{i}" for i, (name, _) in enumerate(RULES)]
P, G, T = numpy.random.default_rng(2).standard_normal((3, 2, 3))


@pytest.fixture(autouse=True)
def _float64():
    engine.set_default_dtype(engine.float64)  # what ASGD keeps beside a parameter has the default dtype
    yield
    engine.set_default_dtype(engine.float32)


def trained(name, options, p, g, **hyper):
    """Six steps with gradients that turn once; a loss of where they end."""
    p = p.clone()
    optimizer = getattr(engine.optim, name)([p], **{"lr": 0.05, **options, **hyper}, differentiable=True)
    for i in range(6):
        p.grad = g * (1 + i) * (-1 if i == 3 else 1)
        optimizer.step()
    return (p * engine.tensor(T)).sin().sum()


def slope(fn, x, h=1e-6):
    found = numpy.zeros_like(x)
    for at in numpy.ndindex(x.shape):
        step = numpy.zeros_like(x)
        step[at] = h
        found[at] = (fn(x + step) - fn(x - step)) / (2 * h)
    return found


@pytest.mark.parametrize(("name", "options"), RULES, ids=IDS)
@pytest.mark.parametrize("by", ["p", "g", "lr", "weight_decay"])
def test_derivatives(name, options, by):
    if by == "weight_decay" and name == "Rprop" or name == "SGD" and "momentum" in options and by in ("g", "weight_decay"):
        by = "lr"  # Rprop has no decay; the first buffer of SGD's momentum has no history, in PyTorch too
    values = {"p": P, "g": G, "lr": numpy.asarray(0.05), "weight_decay": numpy.asarray(0.1)}

    def loss(x):
        given = {"p": engine.tensor(P), "g": engine.tensor(G), by: x}
        return trained(name, {k: v for k, v in options.items() if k != by}, **given)

    x = engine.tensor(values[by], requires_grad=True)
    (found,) = engine.autograd.grad(loss(x), x)
    expected = slope(lambda v: loss(engine.tensor(v)).item(), values[by])
    assert numpy.allclose(found.numpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("name", "options"), RULES, ids=IDS)
def test_the_same_numbers_as_a_usual_step(name, options):
    found = []
    for differentiable in (False, True):
        p = engine.tensor(P)
        optimizer = getattr(engine.optim, name)([p], lr=0.05, **options, differentiable=differentiable)
        for i in range(5):
            p.grad = engine.tensor(G) * (1 - i % 3)
            optimizer.step()
        found.append([p.numpy(), *[v.numpy() for v in optimizer.state[p].values() if isinstance(v, engine.Tensor)]])
    assert len(found[0]) == len(found[1])
    for usual, recorded in zip(*found, strict=True):
        assert usual.dtype == recorded.dtype and usual.shape == recorded.shape
        assert numpy.allclose(usual, recorded, rtol=1e-12)


def test_betas_and_complex_parameters():
    beta = engine.tensor(0.8, requires_grad=True)
    trained("Adam", {}, engine.tensor(P), engine.tensor(G), betas=(beta, engine.tensor(0.9))).backward()
    ends = [trained("Adam", {}, engine.tensor(P), engine.tensor(G), betas=(0.8 + h, 0.9)).item() for h in (1e-6, -1e-6)]
    assert numpy.isclose(beta.grad.item(), (ends[0] - ends[1]) / 2e-6, rtol=1e-5)
    found = []
    for differentiable in (False, True):
        p = engine.tensor(P + 1j * G)
        optimizer = engine.optim.Adam([p], lr=0.1, differentiable=differentiable)
        for _ in range(3):
            p.grad = engine.tensor(G + 2j * P)
            optimizer.step()
        found.append((p.numpy(), optimizer.state[p]["exp_avg"].numpy()))
    for usual, recorded in zip(*found, strict=True):
        assert usual.dtype == recorded.dtype == numpy.complex128 and numpy.allclose(usual, recorded)


def test_a_learning_rate_is_learnt_through_training():
    """The example of unrolled training: the loss after ten steps says how to change the rate of them all."""
    rate, ends = engine.tensor(0.02, requires_grad=True), []
    for _ in range(15):
        w = engine.tensor([3.0, -2.0], requires_grad=True)
        at = w.clone()
        optimizer = engine.optim.SGD([at], lr=rate, differentiable=True)
        for _ in range(10):
            (at.grad,) = engine.autograd.grad((at.clone() ** 2).sum(), at, create_graph=True)
            optimizer.step()
        loss = (at**2).sum()
        (slope,) = engine.autograd.grad(loss, rate)
        rate_before = rate.item()
        rate = (rate.detach() - 1e-3 * slope.sign()).requires_grad_()
        left = 1 - 2 * rate_before
        assert numpy.isclose(loss.item(), 13 * left**20) and numpy.isclose(slope.item(), -40 * 13 * left**19)
        ends.append(loss.item())
    assert ends == sorted(ends, reverse=True)


def test_refusals():
    leaf = engine.tensor([1.0], requires_grad=True)
    leaf.grad = engine.ones(1)
    with pytest.raises(RuntimeError, match="leaf"):
        engine.optim.SGD([leaf], lr=0.1, differentiable=True).step()
    with pytest.raises(ValueError, match="non-leaf"):
        engine.optim.SGD([leaf * 2], lr=0.1)
    with pytest.raises(RuntimeError, match="fused"):
        engine.optim.Adam([leaf], differentiable=True, fused=True)
    other = engine.tensor([1.0])
    other.grad = engine.ones(1)
    with pytest.raises(AssertionError, match="foreach"):
        engine.optim.Adam([other], differentiable=True, foreach=True).step()
