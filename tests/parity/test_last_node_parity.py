"""PyTorch's deprecated backward hooks of modules: what they see and change, and the warnings, beside the live PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest
import torch

import engine

pytestmark = pytest.mark.torch
MODULES = {
    "Linear(2, 3)": [(4, 2)], "Linear(2, 3, bias=False)": [(4, 2)], "Conv2d(2, 3, 2)": [(1, 2, 4, 4)], "ReLU()": [(4, 2)],
    "Sequential(nn.Linear(2, 2), nn.ReLU())": [(3, 2)], "MaxPool2d(2)": [(1, 2, 4, 4)], "BatchNorm2d(2)": [(3, 2, 4, 4)],
    "Flatten()": [(3, 2, 4, 4)], "Bilinear(2, 3, 4)": [(5, 2), (5, 3)], "Softmax(1)": [(5, 2)],
}  # fmt: skip


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("made", MODULES)
def test_old_hooks(made, change):
    def run(E: Any) -> tuple[list, list]:
        E.manual_seed(0)
        module, seen = eval(f"nn.{made}", {"nn": E.nn}), []

        def hook(asked, into, out):
            assert asked is module
            seen.extend(None if g is None else g.detach().numpy().copy() for g in (*into, *out))
            return tuple(None if g is None else g * 2 for g in into) if change else None

        handle = module.register_backward_hook(hook)
        x = [E.arange(numpy.prod(shape)).reshape(shape).sqrt().requires_grad_() for shape in MODULES[made]]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            (module(*[a * 1 for a in x]) ** 2).sum().backward()
        handle.remove()
        module(*x).sum().backward()
        return [*seen, *[a.grad.numpy() for a in x]], [(w.category, str(w.message)) for w in told]

    (theirs, warned), (ours, warnings_) = run(torch), run(engine)
    assert warnings_ == warned
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours, strict=True):
        assert (a is None) == (b is None) and (a is None or numpy.allclose(a, b, rtol=1e-4, atol=2e-4))
