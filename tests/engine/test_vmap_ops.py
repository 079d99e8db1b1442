"""Every op under `vmap` gives what it gives for each sample alone: values, and gradients by sample. Inputs are drawn anew for each sample."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import cases
import engine
from cases import Case
from engine import Tensor
from engine.func import grad, vmap

SAMPLES = 3


def batches(case: Case) -> tuple[list, list]:
    """Inputs whose first dimension is the batch, and `in_dims`: floats differ a little from sample to sample."""
    drawn = cases.draw(case)
    rng = numpy.random.default_rng(len(str(case)))
    inputs: list[Any] = []
    for x in drawn:
        if not isinstance(x, numpy.ndarray):
            inputs.append(x)
        elif cases.floating(x):
            inputs.append(numpy.stack([numpy.asarray(x * (1 + 0.02 * rng.uniform(size=x.shape))) if i else x for i in range(SAMPLES)]))
        else:
            inputs.append(numpy.stack([x] * SAMPLES))
    return inputs, [0 if isinstance(x, numpy.ndarray) else None for x in inputs]


def called(case: Case, *xs: Any) -> tuple:
    return cases.call(case, list(xs))


def sample(x: Any, i: int) -> Any:
    return x[i, ...].copy() if isinstance(x, numpy.ndarray) else x


def tensor(x: Any) -> Any:
    return engine.tensor(x) if isinstance(x, numpy.ndarray) else x


def close(a: Any, b: Any) -> None:
    a, b = a.detach().numpy(), b.detach().numpy()
    assert a.shape == b.shape and a.dtype == b.dtype
    numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, equal_nan=True)


@cases.each("vmap")
def test_values(case: Case) -> None:
    inputs, dims = batches(case)
    alone = [called(case, *[tensor(sample(x, i)) for x in inputs]) for i in range(SAMPLES)]
    if any(len({tuple(one[k].shape) for one in alone}) > 1 for k in range(len(alone[0]))):
        with pytest.raises(RuntimeError, match="dynamic shape"):
            vmap(lambda *xs: called(case, *xs), tuple(dims))(*map(tensor, inputs))
        return
    together = vmap(lambda *xs: called(case, *xs), tuple(dims), randomness="same")(*map(tensor, inputs))
    for k, found in enumerate(together):
        close(found, engine.stack([one[k] for one in alone]))


@cases.each("vmap", lambda op: op.ruled, first=True)
def test_gradients_by_sample(case: Case) -> None:
    inputs, dims = batches(case)
    wanted = tuple(i for i, x in enumerate(inputs) if cases.floating(x))
    if not wanted:
        return

    def loss(*xs: Any) -> Tensor:
        found = cases.smooth(case, called(case, *xs))
        return sum((r.abs() if r.is_complex() else r.sin()).sum() for r in found)

    for shared in {None, wanted[0]}:  # each sample with inputs of its own, and with one input that all share
        some, places = list(inputs), list(dims)
        if shared is not None and len(wanted) > 1:
            some[shared], places[shared] = some[shared][0, ...], None
        singles = [[sample(x, i) if d == 0 else x for x, d in zip(some, places, strict=True)] for i in range(SAMPLES)]
        alone = [grad(loss, wanted)(*map(tensor, single)) for single in singles]
        together = vmap(grad(loss, wanted), tuple(places), randomness="same")(*map(tensor, some))
        for k, found in enumerate(together):
            close(found, engine.stack([one[k] for one in alone]))


@pytest.mark.parametrize("same", [engine.equal, engine.allclose])
def test_one_bool_for_samples_that_may_differ_is_refused(same):
    x, one = engine.ones(2, 3), engine.ones(3)
    with pytest.raises(RuntimeError, match=f"vmap: {same.__name__.strip('_')} answers with one bool"):
        engine.vmap(lambda a: a * same(a, one))(x)
    assert engine.vmap(lambda a: a * same(one, one))(x).tolist() == x.tolist()


def test_no_gradient_of_a_vmaps_samples_outlives_it():
    x = engine.ones(2, requires_grad=True) * 1
    x.retain_grad()
    (g,) = engine.autograd.grad(x * 2, x, engine.ones(3, 2), is_grads_batched=True)
    assert g.tolist() == [[2, 2]] * 3 and x.grad is None
    with pytest.raises(RuntimeError, match="inside a functorch transform"):
        engine.func.vmap(lambda s: (x.backward(s), s)[1])(engine.ones(3, 2))
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_write_to_a_reshaped_sample_is_refused_and_a_reshape_alone_is_not():
    x = engine.ones(3, 2, requires_grad=True) * 1
    assert vmap(lambda s: s.unsqueeze_(0) * 2)(x).shape == (3, 1, 2)
    with pytest.raises(RuntimeError, match="reshapes an input in place and writes to it"):
        vmap(lambda s: s.unsqueeze_(0).mul_(2))(x)


def test_what_becomes_of_a_sample_alone_does_not_reach_the_tensor():
    x, constant, kept = engine.ones(3, 2, requires_grad=True) * 1, engine.ones(3, 2), []
    assert vmap(lambda s: s.requires_grad_() * 2)(constant).requires_grad and not constant.requires_grad
    vmap(lambda s: (kept.append(s), s.detach_())[1])(x)
    assert x.requires_grad
    kept[0].mul_(2)  # outside of its vmap, whose tensor may be gone
