"""The gradient magnitude of each parameter in depth order, with a flag for vanishing, exploding or bad gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .. import inspector
from .statistics import max_magnitude, mean_magnitude

# the same thresholds as torchlens
VANISHING = 1e-7
EXPLODING = 1e4


@dataclass(frozen=True)
class GradientRow:
    """Statistics of one parameter's gradient; NaN if there is no gradient or it has no finite element."""

    name: str
    shape: tuple[int, ...]
    mean: float  # of |grad|, over the finite elements
    max: float  # of |grad|, over the finite elements
    norm: float  # L2; NaN if the gradient has NaN or Inf
    nan: int
    inf: int
    ratio: float  # |Δw| / |w| of the update that followed; NaN if unknown
    flag: str  # "", "no gradient", "NaN", "Inf", "all zero", "vanishing" or "exploding"


def row(name: str, shape: tuple[int, ...], grad: Any | None) -> GradientRow:
    """Statistics of one parameter's gradient array; `grad` is None if it has no gradient."""
    if grad is None:
        return judged(name, shape, math.nan, math.nan, math.nan, 0, 0, False)
    s = inspector.summary(grad)
    norm = math.nan if s.norm is None else s.norm
    return judged(name, shape, mean_magnitude(grad, s), max_magnitude(s), norm, s.nan, s.pos_inf + s.neg_inf)


def judged(
    name: str, shape: tuple, mean: float, largest: float, norm: float, nan: int, inf: int, there: bool = True, ratio: float = math.nan
) -> GradientRow:
    """Return the row with its flag. Vanishing and exploding depend on the largest element, since a sparse gradient has a small mean."""
    if not there:
        flag = "no gradient"
    elif nan or inf:
        flag = "NaN" if nan else "Inf"
    elif largest == 0:
        flag = "all zero"
    else:
        flag = "vanishing" if largest < VANISHING else "exploding" if largest > EXPLODING else ""
    return GradientRow(name, shape, mean, largest, norm, nan, inf, ratio, flag)


def of_model(model: Any) -> list[GradientRow]:
    """The current gradients of a module's parameters, in the order of `named_parameters()`."""
    found = []
    for name, p in model.named_parameters():
        grad = p.grad
        found.append(row(name, tuple(p.shape), None if grad is None else grad.array))
    return found


def table(rows: list[GradientRow]) -> str:
    """Format the rows as a plain-text table."""
    width = max((len(r.name) for r in rows), default=0)
    lines = [f"{'':<{width}}  mean |grad|   max |grad|  |Δw|/|w|"]
    for r in rows:
        cells = "  ".join(f"{'–' if math.isnan(x) else f'{x:.3g}':>{w}}" for x, w in ((r.mean, 11), (r.max, 11), (r.ratio, 8)))
        lines.append(f"{r.name:<{width}}  {cells}  {r.flag}".rstrip())
    return "\n".join(lines)
