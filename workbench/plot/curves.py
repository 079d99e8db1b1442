"""Curves over training steps: reported scalars, and update-to-weight ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from ..training.curve import Curve
from ..training.history import History
from ..training.progress import Track
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def learning_curves(
    source: History | Track | Mapping[str, Any] | Sequence[Any],
    names: Sequence[str] | None = None,
    right: Sequence[str] = (),
    smooth: float = 0.0,
    log: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Plot reported scalars, such as loss and accuracy, by step. NaN and Inf leave gaps.

    Args:
        source: a history (`History.log`), a `wb.progress`, a dict from names to lists (or to `(steps, values)`), or one list.
        names: the curves to draw, in this order; by default, all.
        right: curves that use an axis on the right.
        smooth: in [0, 1): draw an exponential moving average with this weight for the past, bias-corrected like Adam's moments, over the
            faint raw values.
        log: make the left axis logarithmic.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: a name is unknown, or `smooth` is out of range.
        TypeError: `source` is something else.

    Example::

        >>> ax = wb.plot.learning_curves({"loss": [1.0, 0.5, 0.4], "accuracy": [0.3, 0.6, 0.7]}, right=["accuracy"])
        >>> ax.figure.savefig("curves.png")
    """
    if not 0 <= smooth < 1:
        raise ValueError(f"wb.plot.learning_curves: smooth is from 0 to below 1, got {smooth!r}.")
    curves = _curves(source)
    chosen = [*(names if names is not None else (n for n in curves if n not in right)), *right]
    unknown = [name for name in chosen if name not in curves]
    if unknown or not chosen:
        known = ", ".join(curves) or "nothing yet"
        raise ValueError(f"wb.plot.learning_curves: {', '.join(map(repr, unknown)) or 'nothing'} to draw; reported was {known}.")
    ax = style.axes(ax)
    other = ax.twinx() if right else None
    size = style.tick_size(ax)
    lines = []
    for i, name in enumerate(chosen):
        steps, values = curves[name]
        on = other if other is not None and name in right else ax
        look = style.line_style(i)
        values = numpy.where(numpy.isfinite(values), values, numpy.nan)
        label = f"{name} (right)" if on is other else name
        marker = "o" if len(values) <= 30 else None
        if smooth:
            on.plot(steps, values, alpha=0.3, linewidth=1, **look)
            label += f", EMA {smooth:g}"
            values = smoothed(values, smooth)
        lines += on.plot(steps, values, label=label, linewidth=2, marker=marker, markersize=5, **look)
    if log:
        ax.set_yscale("log")
    ax.set_xlabel("step")
    left = [name for name in chosen if name not in right]
    ax.set_ylabel(left[0] if len(left) == 1 else "")
    if other is not None:
        other.set_ylabel(right[0] if len(right) == 1 else "", size=ax.yaxis.label.get_fontsize())
        other.tick_params(labelsize=size)
        other.spines["top"].set_visible(False)
    style.grid(ax)
    # below the plot if there are two axes, because loc="best" considers only one of them
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 4} if other is not None else {}
    ax.legend(handles=lines, fontsize=size, framealpha=0.9, **below)
    ax.title.set_text("Learning curves")
    return ax


def smoothed(values: numpy.ndarray, weight: float) -> numpy.ndarray:
    """The bias-corrected moving average m_t = weight m_{t-1} + (1 - weight) x_t, divided by 1 - weight^t. NaN is skipped and stays NaN.

    Source: Kingma and Ba, 2015, section 3.
    """
    found = numpy.full(len(values), numpy.nan)
    average, past = 0.0, 1.0
    for i, x in enumerate(values.tolist()):
        if x == x:
            average, past = weight * average + (1 - weight) * x, past * weight
            found[i] = average / (1 - past)
    return found


def _curves(source: Any) -> dict[str, tuple[numpy.ndarray, numpy.ndarray]]:
    scalars = getattr(source, "scalars", None)
    if scalars is not None:
        source = scalars
    elif not isinstance(source, Mapping):
        if isinstance(source, str) or not hasattr(source, "__len__"):
            raise TypeError(f"wb.plot.learning_curves takes a history, a track, a dict of lists or a list, got {type(source).__name__}.")
        source = {"value": source}
    return {str(name): _steps_and_values(str(name), one) for name, one in source.items()}


def _steps_and_values(name: str, one: Any) -> tuple[numpy.ndarray, numpy.ndarray]:
    if isinstance(one, Curve):
        return one.steps, one.values
    pair = isinstance(one, tuple) and len(one) == 2 and all(hasattr(part, "__len__") for part in one)
    steps, values = one if pair else (None, one)
    try:
        found = numpy.array([float(x) for x in values], numpy.float64)
        places = numpy.arange(len(found)) if steps is None else numpy.array([float(x) for x in steps], numpy.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"wb.plot.learning_curves: {name} is not a list of numbers: {error}.") from error
    if len(places) != len(found):
        raise ValueError(f"wb.plot.learning_curves: {name} has {len(places)} steps and {len(found)} values.")
    return places, found


def update_ratio(history: History, names: Sequence[str] | None = None, biases: bool = False, ax: Axes | None = None) -> Axes:
    """Plot the update-to-weight ratio |Δw| / |w| (L2 norms) of each parameter by step, on a logarithmic axis.

    The line at 1e-3 is the rule of thumb of Stanford's CS231n: far above it the learning rate is likely too high, far below it too low.

    Args:
        history: what `wb.history` returned.
        names: the parameters to draw; by default, all.
        biases: include parameters with fewer than two dimensions, which are left out by default.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: `history` is not a history.
        ValueError: a name is a module's, or there is no parameter to draw.
        KeyError: a name is unknown.

    Example::

        >>> model = engine.nn.Linear(2, 1)
        >>> optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
        >>> h = wb.history(model, optimizer)
        >>> for _ in range(3):
        ...     model(engine.ones(4, 2)).square().mean().backward()
        ...     optimizer.step()
        >>> ax = wb.plot.update_ratio(h)
    """
    if not isinstance(history, History):
        raise TypeError(f"wb.plot.update_ratio takes a history (wb.history(model, optimizer)), got {type(history).__name__}.")
    shapes = {row.name: row.shape for row in history.gradients()}
    chosen = [n for n, shape in shapes.items() if biases or len(shape) > 1] if names is None else list(names)
    entries = [history[name] for name in chosen]
    wrong = [name for name, one in zip(chosen, entries, strict=True) if not hasattr(one, "ratio")]
    if wrong or not entries:
        raise ValueError(f"wb.plot.update_ratio draws parameters; {wrong[0]!r} is a module." if wrong else "There is no parameter to draw.")
    ax = style.axes(ax)
    for i, one in enumerate(entries):
        ratio = numpy.where(one.ratio > 0, one.ratio, numpy.nan)
        ax.plot(history.steps, ratio, linewidth=1.8, label=one.name, **style.line_style(i))
    ax.set_yscale("log")
    ax.axhline(1e-3, color=style.GREY, linestyle="--", linewidth=1.2)
    size = style.tick_size(ax)
    ax.text(1.01, 1e-3, "1e-3", ha="left", va="center", color=style.GREY, size=size, transform=ax.get_yaxis_transform())
    ax.set_xlabel("step")
    ax.set_ylabel("|Δw| / |w|")
    ax.title.set_text("Update-to-weight ratio")
    style.grid(ax)
    if len(entries) <= 12:
        ax.legend(fontsize=0.85 * size, ncols=1 + (len(entries) > 6), framealpha=0.9)
    return ax
