"""A module with parameters, buffers and children, and what tests of modules compare with."""

from __future__ import annotations

import numpy

import engine
from engine import Tensor, nn


def values(x):
    return x.detach().numpy()


def close(x, expected, rtol=1e-5, atol=1e-6):
    found = values(x) if isinstance(x, Tensor) else x
    assert numpy.shape(found) == numpy.shape(expected), f"shape {numpy.shape(found)}, not {numpy.shape(expected)}"
    numpy.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(engine.tensor([2.0]))
        self.register_buffer("seen", engine.tensor([0.0]))
        self.register_buffer("scratch", engine.tensor([1.0]), persistent=False)

    def forward(self, x, shift=0.0):
        return self.rest(self.first(x)) * self.scale + shift
