"""Tensors that ask for a gradient, and what their gradient is near to: for tests that run on the engine and on torch alike."""

from __future__ import annotations

import pytest

import engine


def leaf(*values):
    return engine.tensor(values if len(values) != 1 else values[0], dtype=engine.float64, requires_grad=True)


def approx(tensor, expected):
    return tensor.detach().tolist() == pytest.approx(expected)
