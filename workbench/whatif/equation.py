"""A backward step as an equation between tensors: upstream ∘ local = contribution, or upstream @ Wᵀ = contribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from ..inspector import host
from .local import LocalDerivative
from .one import One


@dataclass
class Part:
    """A tensor in an equation, with the sign before it."""

    sign: str
    label: str
    array: Any


# The factors in the gradients of a product's first and second input.
PRODUCTS = {"matmul": ("other", "input"), "mm": ("mat2", "input"), "bmm": ("mat2", "input"), "linear": ("weight", "input")}


def equation(one: One, local: LocalDerivative, upstream: Any, contribution: Any) -> list[Part]:
    """The parts of the equation; empty for scalars, for which the rule itself says more."""
    g, found = host(upstream), host(contribution)
    if local.kind == "scalar":
        return []
    if local.kind == "elementwise":
        parts = [Part("", "upstream", g), Part("∘", "local", local.values)]
        if found.shape == g.shape:
            return [*parts, Part("=", "contribution", found)]
        with numpy.errstate(all="ignore"):
            return [*parts, Part("=", "product", g * local.values), Part("→ Σ", "contribution", found)]
    return _product(one, local, g, found) or [Part("", "upstream", g), Part("→", "contribution", found)]


def _product(one: One, local: LocalDerivative, g: numpy.ndarray, found: numpy.ndarray) -> list[Part]:
    """g @ Wᵀ or Xᵀ @ g for matrix products, verified before they are shown."""
    names = PRODUCTS.get(one.op.name)
    slots = list(one.op.slots) if names else []
    if names is None or local.slot > 1 or not isinstance(one.node.saved, tuple):
        return []
    name = names[local.slot]
    factor = one.node.saved[slots.index(name)] if slots.index(name) < len(one.node.saved) else None
    if factor is None or g.ndim < 2 or host(factor).ndim < 2:
        return []
    matrix, first = host(factor), local.slot == 0
    if one.op.name == "linear":
        flat, rows = g.reshape(-1, g.shape[-1]), matrix.reshape(-1, matrix.shape[-1])
        parts = (g, matrix) if first else (flat.T, rows)
        labels = ("upstream", "W") if first else ("upstreamᵀ", "x")
    else:
        parts = (g, matrix.swapaxes(-1, -2)) if first else (matrix.swapaxes(-1, -2), g)
        labels = ("upstream", "yᵀ") if first else ("xᵀ", "upstream")
    try:
        with numpy.errstate(all="ignore"):
            made = parts[0] @ parts[1]
    except ValueError:
        return []
    if made.shape != found.shape or not numpy.allclose(made, found, rtol=1e-3, atol=1e-5, equal_nan=True):
        return []
    return [Part("", labels[0], parts[0]), Part("@", labels[1], parts[1]), Part("=", "contribution", found)]
