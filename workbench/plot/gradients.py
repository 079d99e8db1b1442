"""Gradient flow plots: the gradient magnitude of each parameter, from the first layer to the last."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from engine.core.tensor import Tensor
from engine.nn import Module

from ..inspector import gradient_flow as flow
from ..training.history import History
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def gradient_flow(
    source: Module | History | Mapping[str, Any], step: int | None = None, biases: bool = True, ax: Axes | None = None
) -> Axes:
    """Plot the mean and maximum |gradient| of each parameter in depth order, on a logarithmic axis with vanishing and exploding bands.

    Gradients that are missing, all zero, or have NaN or Inf are marked.

    Args:
        source: a module after `backward()`, a history, or a dict from names to gradients (tensors or arrays).
        step: of a history, one of its kept steps; by default, the last.
        biases: False leaves out parameters with fewer than two dimensions.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: `source` is something else.
        ValueError: there is no parameter, or none has a gradient.

    Example::

        >>> model = engine.nn.Sequential(engine.nn.Linear(2, 8), engine.nn.Tanh(), engine.nn.Linear(8, 1))
        >>> model(engine.ones(4, 2)).square().mean().backward()
        >>> ax = wb.plot.gradient_flow(model)
    """
    rows, title = _rows(source, step)
    if not biases:
        rows = [r for r in rows if len(r.shape) > 1]
    if not rows:
        raise ValueError("wb.plot.gradient_flow: there is no parameter to draw.")
    if all(r.flag == "no gradient" for r in rows):
        raise ValueError("wb.plot.gradient_flow: no parameter has a gradient. Call backward() first, and zero_grad() after the picture.")
    names = [r.name for r in rows]
    new = ax is None
    ax = style.axes(ax, (max(style.SIZE[0], 0.32 * len(rows) + 2), 5.2))
    x = numpy.arange(len(rows))
    means, largest = (numpy.array([getattr(r, of) for r in rows]) for of in ("mean", "max"))
    means[means == 0] = largest[largest == 0] = math.nan  # zeros do not exist on a logarithmic axis; they are marked instead
    ax.set_yscale("log")
    ax.vlines(x, means, largest, color=style.SKY, linewidth=6, alpha=0.45)
    ax.plot(x, largest, "v", color=style.RED, markersize=7, label="max |grad|")
    ax.plot(x, means, "-o", color=style.BLUE, markersize=6, linewidth=2, label="mean |grad|")
    low, high = _limits(numpy.concatenate([means, largest]))
    ax.set_ylim(low, high)
    size = style.tick_size(ax)
    for edge, end, word, at in ((flow.VANISHING, low, "vanishing", "top"), (flow.EXPLODING, high, "exploding", "bottom")):
        if low < edge < high:
            ax.axhspan(min(edge, end), max(edge, end), color=style.ORANGE, alpha=0.18, linewidth=0)
            ax.axhline(edge, color=style.GREY, linewidth=1, linestyle="--")
            words = f"{word}, {'<' if at == 'top' else '>'} {edge:g} "
            paper = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.5}
            ax.text(1, edge, words, ha="right", va=at, size=size, transform=ax.get_yaxis_transform(), bbox=paper, zorder=5)
    for i, r in enumerate(rows):
        if r.flag in ("NaN", "Inf", "all zero", "no gradient"):
            color = style.RED if r.flag in ("NaN", "Inf") else style.GREY
            place = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom", "rotation": 90}
            ax.text(i, 0.03, f"✕ {r.flag}", color=color, size=size, weight="bold", **place)
    crowded = any(len(name) > 6 for name in names) or len(names) > 12
    ax.set_xticks(x, names, rotation=55 if crowded else 0, ha="right" if crowded else "center", rotation_mode="anchor")
    if new and len(names) > 40:
        ax.tick_params(axis="x", labelsize=8)
    ax.set_xlim(-0.6, len(rows) - 0.4)
    ax.set_ylabel("|gradient|")
    ax.title.set_text(title)
    style.grid(ax)
    ax.legend(fontsize=size, loc="best", framealpha=0.9)
    return ax


def _rows(source: Any, step: int | None) -> tuple[list[flow.GradientRow], str]:
    if isinstance(source, History):
        rows = source.gradients(step)
        return rows, f"Gradient flow at step {source.steps[-1] if step is None else step}"
    if step is not None:
        raise ValueError("wb.plot.gradient_flow: only a history has steps.")
    if isinstance(source, Module):
        return flow.of_model(source), "Gradient flow"
    if isinstance(source, Mapping):
        arrays = {str(name): g.array if isinstance(g, Tensor) else g if g is None else numpy.asarray(g) for name, g in source.items()}
        return flow.rows((name, () if g is None else g.shape, g) for name, g in arrays.items()), "Gradient flow"
    raise TypeError(f"wb.plot.gradient_flow takes a module, a history or a dict of gradients, got {type(source).__name__}.")


def _limits(values: numpy.ndarray) -> tuple[float, float]:
    """Limits from a decade below the smallest to a decade above the largest value, extended to include a band edge that is near."""
    fine = values[numpy.isfinite(values) & (values > 0)]
    low, high = (fine.min() / 10, fine.max() * 10) if fine.size else (1e-3, 1.0)
    low = min(low, flow.VANISHING / 10) if low < flow.VANISHING * 100 else low
    high = max(high, flow.EXPLODING * 10) if high > flow.EXPLODING / 100 else high
    return float(low), float(high)
