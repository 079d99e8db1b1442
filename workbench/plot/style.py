"""The style of the plots: colors that color-blind readers can distinguish, and font sizes that are legible on a slide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito, "Color Universal Design", 2008, without the yellow, which is too pale on white.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
CYCLE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK)
DASHES = ("-", "--", "-.", ":")  # distinguish lines in addition to color, for print in black and white
DIVERGING, SEQUENTIAL = "RdBu_r", "viridis"
GREY = "#767676"
SIZE = (8.0, 4.5)  # inches: the shape of a slide
_FONTS = {"title": 15, "label": 14, "tick": 12}


def axes(ax: Axes | None, size: tuple[float, float] = SIZE, projection: str | None = None) -> Axes:
    """Return the given Axes, or those of a new figure with slide-size fonts. Raises TypeError if `ax` is not an Axes.

    Set titles with `ax.title.set_text`, because `set_title` would reset the font size.
    """
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if ax is None:
        room = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
        _, made = pyplot.subplots(figsize=size, layout=room, subplot_kw={"projection": projection})
        made.title.set_fontsize(_FONTS["title"])
        for axis in (made.xaxis, made.yaxis, *([made.zaxis] if projection else [])):  # type: ignore[attr-defined]
            axis.label.set_fontsize(_FONTS["label"])
        made.tick_params(labelsize=_FONTS["tick"])
        return made
    if not isinstance(ax, Axes):
        raise TypeError(f"ax is the matplotlib Axes to draw on, got {type(ax).__name__}.")
    return ax


def grid(ax: Axes) -> None:
    """Draw a faint grid and hide the top and right spines."""
    ax.grid(color="#00000018", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def line_style(index: int) -> dict[str, Any]:
    """Color and dashes of the n-th line: the dashes change each time the colors repeat."""
    return {"color": CYCLE[index % len(CYCLE)], "linestyle": DASHES[index // len(CYCLE) % len(DASHES)]}


def tick_size(ax: Axes) -> float:
    """The font size of the tick labels in points, for text in the plot."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    size = ax.xaxis.get_tick_params().get("labelsize", rcParams["xtick.labelsize"])
    return FontProperties(size=size).get_size_in_points()  # resolves names such as "medium"
