"""Passes that differentiate passes, watched step by step, against PyTorch's numbers."""

from __future__ import annotations

import meta
import numpy
import pytest
import torch
from meta import PROGRAMS
from test_passes import watched

import engine

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_watched_double_backward_leaves_what_pytorch_leaves(program):
    wanted, run = program(torch)
    loss = run(wanted)
    loss.backward()
    leaves, again = program(engine)
    losses = []

    def cell():
        losses.append(again(leaves))
        losses[0].backward()

    session = watched(cell, dict(zip(("w1", "b1", "w2", "b2"), leaves, strict=True)))
    assert losses[0].item() == pytest.approx(loss.item(), rel=1e-12)
    for mine, theirs in zip(leaves, wanted, strict=True):
        numpy.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-12)
    last = session.passes[-1]
    last.to(last.total)
    for mine, theirs in zip(leaves, wanted, strict=True):
        row = last.recording.find(mine)
        array, _ = last.gradient(row)
        numpy.testing.assert_allclose(array, theirs.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_the_inner_gradients_of_each_pass_are_pytorchs(monkeypatch):
    """MAML: what each inner pass hands to its caller, looked up in its record."""
    theirs, mine = [], []

    def noted(library, found):
        inner = library.autograd.grad

        def grad(outputs, inputs, **options):
            gradients = inner(outputs, inputs, **options)
            found.append((inputs, gradients))
            return gradients

        monkeypatch.setattr(library.autograd, "grad", grad)

    noted(torch, theirs)
    noted(engine, mine)
    wanted, run = meta.meta_learner(torch)
    run(wanted).backward()
    leaves, again = meta.meta_learner(engine)
    session = watched(lambda: again(leaves).backward(), {})
    assert len(session.passes) == len(theirs) + 1 == 3
    for one, (inputs, _), (_, gradients) in zip(session.passes, mine, theirs, strict=False):
        one.to(one.total)
        for tensor, gradient in zip(inputs, gradients, strict=True):
            array, missing = one.gradient(one.recording.row_of(tensor.node))
            assert missing == ""
            numpy.testing.assert_allclose(array, gradient.detach().numpy(), rtol=1e-9, atol=1e-12)
