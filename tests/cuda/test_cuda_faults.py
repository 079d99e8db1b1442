"""What kernels find wrong is raised when the host next waits; until then, the host goes on."""

from __future__ import annotations

import numpy
import pytest
import syncs

import engine

F = engine.nn.functional

WRONG = {  # call -> the error that the next wait raises
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), IndexError, "index 4 is out of bounds for a dimension of size 3: cross_entropy"),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), IndexError, "index 4 .*size 3: cross_entropy or nll_loss on cuda:0, at position 1"),
    "class weights": (lambda x, i: F.cross_entropy(x, i, x[0]), IndexError, "index 4 .*size 3: cross_entropy or nll_loss"),
    "getitem": (lambda x, i: x[i], IndexError, "index 4 .*size 2: indexing on cuda:0, at position 1"),
    "getitem of two": (lambda x, i: x[:, None][:, 0 * i, i], IndexError, "index 4 .*size 3: indexing on cuda:0, at position 1"),
    "setitem": (lambda x, i: x.__setitem__(i, 0.0), IndexError, "index 4 .*size 2: indexing"),
    "index_put": (lambda x, i: x.index_put((i,), x[0]), IndexError, "index 4 .*size 2: index_put"),
    "index_fill": (lambda x, i: x.index_fill(1, i, 0.0), IndexError, "index 4 .*size 3: index_fill"),
    "index_reduce": (lambda x, i: x.index_reduce(0, i, x, "amax"), IndexError, "index out of range: expected 0 to 1"),
    "take_along_dim": (lambda x, i: x.take_along_dim(i[:, None], 1), IndexError, "index 4 .*size 3: gather"),
    "one_hot": (lambda x, i: F.one_hot(i, 4), RuntimeError, "Class values must be smaller than num_classes. .cuda:0, at position 1"),
    "one_hot of a negative": (lambda x, i: F.one_hot(-i, 9), RuntimeError, "Class values must be non-negative"),
    "embedding": (lambda x, i: F.embedding(i, x), IndexError, "index 4 .*size 2: embedding"),
    "max_unpool": (lambda x, i: F.max_unpool1d(x[:1, :2], i[None], 2), IndexError, "index 4 .*size 4: scatter on cuda:0, at position 1"),
    "binary_cross_entropy": (
        lambda x, i: F.binary_cross_entropy(x - 3, 0 * x),
        RuntimeError,
        "input should be between 0 and 1 .*position 0",
    ),
    "_assert_async": (lambda x, i: engine._assert_async(x[0, 0] == 5, "not five"), RuntimeError, "not five"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_raised_when_the_host_waits(name, stand_in):
    call, kind, text = WRONG[name]
    x, i = engine.arange(6.0, device="cuda").reshape(2, 3), engine.tensor([1, 4]).to("cuda")
    syncs.found.clear()
    call(x, i)
    assert syncs.found == []
    with pytest.raises(kind, match=text):
        x.sum().item()
    x.sum().item()  # it is told once


def test_ignored_targets_are_no_faults(stand_in):
    found = {}
    for device in ("cpu", "cuda"):
        x = engine.tensor(numpy.random.default_rng(0).standard_normal((4, 3, 2)), device=device)
        x[0, :, 0] = float("nan")
        x.requires_grad_()
        weight = engine.tensor([1.0, 2.0, 3.0], dtype=engine.float64, device=device)
        target = engine.tensor([[-100, 1], [2, -100], [0, 2], [1, 1]], device=device)
        loss = F.cross_entropy(x, target, weight) + F.nll_loss(x, target.clamp(min=0), weight, ignore_index=0)
        (grad,) = engine.autograd.grad(loss, x)
        found[device] = [loss.item(), *grad.flatten().tolist()]
    numpy.testing.assert_allclose(found["cuda"], found["cpu"], 1e-12)
