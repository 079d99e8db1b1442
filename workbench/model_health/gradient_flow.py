"""How large the gradient of each parameter is, in depth order, and what is wrong with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .. import inspector
from ..inspector.numbers import max_magnitude, mean_magnitude

# Where torchlens, too, begins to speak of vanishing and of exploding gradients.
VANISHING = 1e-7
EXPLODING = 1e4


@dataclass(frozen=True)
class GradientRow:
    """One parameter's gradient. A number is NaN where there is none: no gradient, or no finite element in it."""

    name: str
    shape: tuple[int, ...]
    mean: float  # of |grad|, over the finite elements
    max: float  # of |grad|, over the finite elements
    norm: float  # L2; NaN when NaN or Inf are in it
    nan: int
    inf: int
    ratio: float  # |Δw| / |w| of the update that followed; NaN when it is not known
    flag: str  # "", "no gradient", "NaN", "Inf", "all zero", "vanishing" or "exploding"


def row(name: str, shape: tuple[int, ...], grad: Any | None) -> GradientRow:
    """The gradient array of one parameter in numbers; None: it has none."""
    if grad is None:
        return judged(name, shape, math.nan, math.nan, math.nan, 0, 0, False)
    s = inspector.summary(grad)
    norm = math.nan if s.norm is None else s.norm
    return judged(name, shape, mean_magnitude(grad, s), max_magnitude(s), norm, s.nan, s.pos_inf + s.neg_inf)


def judged(
    name: str, shape: tuple, mean: float, largest: float, norm: float, nan: int, inf: int, there: bool = True, ratio: float = math.nan
) -> GradientRow:
    """The row of these numbers, with its flag. Small and large are judged by the largest element: a sparse gradient has a small mean."""
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
    """The gradients that the parameters of a module have now, in the order in which the module names them."""
    found = []
    for name, p in model.named_parameters():
        grad = p.grad
        found.append(row(name, tuple(p.shape), None if grad is None else grad.array))
    return found


def table(rows: list[GradientRow]) -> str:
    """The rows as a table of plain text."""
    width = max((len(r.name) for r in rows), default=0)
    lines = [f"{'':<{width}}  mean |grad|   max |grad|  |Δw|/|w|"]
    for r in rows:
        cells = "  ".join(f"{'–' if math.isnan(x) else f'{x:.3g}':>{w}}" for x, w in ((r.mean, 11), (r.max, 11), (r.ratio, 8)))
        lines.append(f"{r.name:<{width}}  {cells}  {r.flag}".rstrip())
    return "\n".join(lines)
