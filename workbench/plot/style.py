"""How the pictures look: colours that colour-blind readers can tell apart, letters that can be read on a slide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito, "Color Universal Design", 2008, without the yellow, which is too pale on white.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"
CYCLE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK)
DASHES = ("-", "--", "-.", ":")  # beside the colour, for print in black and white
DIVERGING, SEQUENTIAL = "RdBu_r", "viridis"
GREY = "#767676"
SIZE = (8.0, 4.5)  # inches: the shape of a slide
_FONTS = {"title": 15, "label": 14, "tick": 12}


def axes(ax: Axes | None, size: tuple[float, float] = SIZE, projection: str | None = None) -> Axes:
    """The given Axes, or those of a new figure with letters of slide size. TypeError when `ax` is something else.

    Titles are written with `ax.title.set_text`: `set_title` would give them their usual size again.
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
    """A quiet grid, and no frame where there is no axis."""
    ax.grid(color="#00000018", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the n-th line: the dashes change when the colours begin anew."""
    return {"color": CYCLE[index % len(CYCLE)], "linestyle": DASHES[index // len(CYCLE) % len(DASHES)]}


def tick_size(ax: Axes) -> float:
    """The size of the letters beside the ticks in points, for text in the picture."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    size = ax.xaxis.get_tick_params().get("labelsize", rcParams["xtick.labelsize"])
    return FontProperties(size=size).get_size_in_points()  # "medium" is a size too
