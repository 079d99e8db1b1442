"""Random programs of views and writes on the engine and on torch: the same values, the same gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis
import numpy
import pytest
import torch

import engine

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
import programs

pytestmark = pytest.mark.torch


def write(v, name, value):
    """PyTorch takes a view of a base that has just begun to need a gradient for a leaf, until its grad_fn was looked at."""
    _ = v.grad_fn
    programs.write_tensor(v, name, value)


def evaluated(library, program, x, w):
    x, w = (library.tensor(a, dtype=library.float64, requires_grad=True) for a in (x, w))
    zeros = lambda shape: library.zeros(shape, dtype=library.float64)  # noqa: E731
    pool = programs.run(program, x, w, lambda v: v.clone(), zeros, write)
    loss = sum((library.tensor(c, dtype=library.float64) * v).sum() for c, v in zip(programs.weights(pool), pool, strict=True))
    grads = library.autograd.grad(loss, (x, w), allow_unused=True, materialize_grads=True) if loss.requires_grad else (x * 0, w * 0)
    return [v.detach().numpy() for v in pool], [g.detach().numpy() for g in grads], [v.requires_grad for v in pool]


@hypothesis.settings(max_examples=200, deadline=None, print_blob=True)
@hypothesis.given(programs.steps, hypothesis.strategies.integers(0, 2**32 - 1))
def test_a_program_means_what_it_means_in_torch(program, seed):
    rng = numpy.random.default_rng(seed)
    x, w = rng.normal(size=programs.SHAPE), rng.normal(size=3)
    (ours, gradients, needs), (theirs, expected, needed) = evaluated(engine, program, x, w), evaluated(torch, program, x, w)
    for a, b in zip(ours, theirs, strict=True):
        assert numpy.allclose(a, b, rtol=1e-12, atol=1e-12)
    for a, b in zip(gradients, expected, strict=True):
        assert numpy.allclose(a, b, rtol=1e-9, atol=1e-9)
    assert needs == needed
