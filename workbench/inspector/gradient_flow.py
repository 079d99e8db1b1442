"""The gradient magnitude of each parameter in depth order, with a flag for vanishing, exploding or bad gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .statistics import Statistics, Wanted, max_magnitude, statistics

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


def rows(named: Iterable[tuple[str, tuple[int, ...], Any | None]]) -> list[GradientRow]:
    """Statistics of parameters' gradients, from each one's name, shape and gradient array; None if it has no gradient.

    Those on a GPU take one wait in all.
    """
    named = list(named)
    told = iter(statistics([grad for *_, grad in named if grad is not None], Wanted(magnitude=True)))
    return [
        judged(name, shape, math.nan, math.nan, math.nan, 0, 0, False) if grad is None else _row(name, shape, next(told))
        for name, shape, grad in named
    ]


def _row(name: str, shape: tuple[int, ...], known: Statistics) -> GradientRow:
    s = known.summary
    norm = math.nan if s.norm is None else s.norm
    return judged(name, shape, known.magnitude, max_magnitude(s), norm, s.nan, s.pos_inf + s.neg_inf)


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
    return rows((name, tuple(p.shape), None if (grad := p.grad) is None else grad.array) for name, p in model.named_parameters())


def table(rows: list[GradientRow]) -> str:
    """Format the rows as a plain-text table."""
    width = max((len(r.name) for r in rows), default=0)
    lines = [f"{'':<{width}}  mean |grad|   max |grad|  |Δw|/|w|"]
    for r in rows:
        cells = "  ".join(f"{'–' if math.isnan(x) else f'{x:.3g}':>{w}}" for x, w in ((r.mean, 11), (r.max, 11), (r.ratio, 8)))
        lines.append(f"{r.name:<{width}}  {cells}  {r.flag}".rstrip())
    return "\n".join(lines)
