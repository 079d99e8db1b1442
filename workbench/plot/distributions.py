"""Plots of the distribution of a weight, gradient, update or activation over training steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy

from ..training.history import History
from ..training.table import Histograms, ModuleHistory
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OF = ("weight", "grad", "update", "activation")
RIDGES = 24  # lines at most; more would be indistinguishable


def histograms(
    history: History,
    name: str,
    of: str | None = None,
    kind: Literal["heat", "ridge"] = "heat",
    bins: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the distribution of a tensor over the steps of a training.

    Args:
        history: what `wb.history` returned.
        name: a parameter or a module.
        of: "weight" (the default for parameters), "grad", "update" or "activation" (for modules).
        kind: "heat" draws a column per kept step, colored by the share of elements in each bin; "ridge" draws at most 24 lines, the
            newest in front, each scaled to the same height.
        bins: the number of equal bins over the whole range; by default 16 to 80, fewer for small tensors. The 64 bins of each step are
            distributed proportionally over them.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: `history` is not a history.
        KeyError: `name` is unknown.
        ValueError: `of`, `kind` or `bins` is not one of the above, or there are no values.

    Example::

        >>> model = engine.nn.Linear(2, 8)
        >>> h = wb.history(model)
        >>> for _ in range(3):
        ...     model(engine.ones(4, 2)).square().mean().backward()
        >>> ax = wb.plot.histograms(h, "weight", of="grad")
    """
    if not isinstance(history, History):
        raise TypeError(f"wb.plot.histograms takes a history (wb.history(model, optimizer)), got {type(history).__name__}.")
    entry = history[name]
    choices = OF[3:] if isinstance(entry, ModuleHistory) else OF[:3]
    of = choices[0] if of is None else of
    if of not in choices:
        raise ValueError(f"wb.plot.histograms: of {name!r} there is {', '.join(choices)}; got of={of!r}.")
    if kind not in ("heat", "ridge"):
        raise ValueError(f'wb.plot.histograms: kind is "heat" or "ridge", got {kind!r}.')
    found = getattr(entry, of).histogram
    if bins is None:
        bins = int(numpy.clip(4 * numpy.sqrt(found.counts.sum(1).max(initial=1)), 16, 80))
    elif not isinstance(bins, int) or bins < 1:
        raise ValueError(f"wb.plot.histograms: bins is an integer, 1 or more; got {bins!r}.")
    edges, shares = spread(found, bins)
    steps = history.steps
    there = shares.sum(1) > 0
    if not there.any():
        raise ValueError(f"wb.plot.histograms: no kept step has a {of} of {name!r} with finite elements.")
    words = {"weight": "weights", "grad": "gradients", "update": "updates", "activation": "activations"}
    ax = style.axes(ax)
    ax.title.set_text(f"{name or type(history.model).__name__}: {words[of]} over steps")
    (_heat if kind == "heat" else _ridge)(ax, steps[there], edges, shares[there])
    return ax


def spread(histogram: Histograms, bins: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Resample all steps' histograms to common bins: edges (bins + 1,) and shares of elements (steps, bins); empty rows are 0."""
    totals = histogram.counts.sum(1, dtype=numpy.float64)
    there = totals > 0
    if not there.any():
        return numpy.linspace(0, 1, bins + 1), numpy.zeros((len(totals), bins))
    edges = numpy.linspace(histogram.low[there].min(), histogram.high[there].max(), bins + 1)
    shares = numpy.zeros((len(totals), bins))
    for i in numpy.flatnonzero(there):
        own = numpy.linspace(histogram.low[i], histogram.high[i], histogram.counts.shape[1] + 1)
        below = numpy.concatenate([[0.0], numpy.cumsum(histogram.counts[i], dtype=numpy.float64)])
        shares[i] = numpy.diff(numpy.interp(edges, own, below)) / totals[i]
    return edges, shares


def _heat(ax: Axes, steps: numpy.ndarray, edges: numpy.ndarray, shares: numpy.ndarray) -> None:
    gap = numpy.diff(steps).min() if len(steps) > 1 else 1
    across = numpy.concatenate([steps - gap / 2, [steps[-1] + gap / 2]])
    # a square-root scale, or one full bin (the zeros of a ReLU) would hide all others
    top = shares.max()
    mesh = ax.pcolormesh(across, edges, numpy.sqrt(shares.T), cmap=style.SEQUENTIAL, vmin=0, vmax=numpy.sqrt(top), rasterized=True)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
    ticks = numpy.linspace(0, numpy.sqrt(top), 5)
    bar.set_ticks(ticks.tolist(), labels=[f"{100 * t * t:.2g}%" for t in ticks])
    bar.ax.tick_params(labelsize=style.tick_size(ax))
    bar.set_label("share of the elements", size=ax.yaxis.label.get_fontsize())
    ax.set_xlabel("step")
    ax.set_ylabel("value")


def _ridge(ax: Axes, steps: numpy.ndarray, edges: numpy.ndarray, shares: numpy.ndarray) -> None:
    from matplotlib import colormaps

    at = numpy.unique(numpy.linspace(0, len(steps) - 1, min(RIDGES, len(steps))).round().astype(int))
    middles = (edges[1:] + edges[:-1]) / 2
    colors = colormaps[style.SEQUENTIAL](numpy.linspace(0, 0.85, len(at)))
    for order, (i, color) in enumerate(zip(at, colors, strict=True)):
        base = -float(order)
        ridge = base + 2.2 * shares[i] / shares[i].max()  # scaled to two gaps, or a narrow distribution would flatten all others
        ax.fill_between(middles, base, ridge, color=color, alpha=0.8, linewidth=0, zorder=order + 2)
        ax.plot(middles, ridge, color="white", linewidth=1, zorder=order + 2)
    few = numpy.unique(numpy.linspace(0, len(at) - 1, min(8, len(at))).round().astype(int))
    ax.set_yticks([-float(k) for k in few], [str(steps[at[k]]) for k in few])
    ax.set_ylabel("step")
    ax.set_xlabel("value")
    style.grid(ax)
    ax.spines["left"].set_visible(False)
