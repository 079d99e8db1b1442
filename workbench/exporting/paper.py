"""Export of a graph's drawing as PNG or PDF with matplotlib. Text stays text in a PDF."""

from __future__ import annotations

from collections.abc import Collection
from io import BytesIO
from typing import Any

from ..graph.drawing import Drawing, Frame
from ..graph.outline import Box
from ..graph.svg import EDGE, FILL, FRAMES, OUTLINE, QUIET, RIDERS, TEXT

_INCH = 96.0  # pixels of the drawing per inch
_MOST = 200.0  # inches: the maximum size of a PDF page
_POINTS = 72 / 96
PLAIN = {"pdf.fonttype": 42, "font.family": "sans-serif", "text.usetex": False, "text.parse_math": False, "path.simplify": False}
DONE, HERE = "#fdeccf", "#c05a00"  # boxes whose gradients have been passed on, and the one of the current step
_SCALE = 2  # pixels of a PNG per pixel of the drawing
_MOST_PIXELS = 60_000_000


def page(drawing: Drawing, kind: str) -> bytes:
    """Return the bytes of a "png" (at twice the drawing's resolution) or a "pdf" (one page of the drawing's size)."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    scale = min(1.0, _MOST * _INCH / max(drawing.width, drawing.height))
    with rc_context(PLAIN):
        figure = Figure(figsize=(drawing.width * scale / _INCH, drawing.height * scale / _INCH), facecolor="#ffffff")
        paint(figure.add_axes((0, 0, 1, 1)), drawing, scale)
        file = BytesIO()
        pixels = drawing.width * drawing.height * scale**2 * _SCALE**2
        dpi = _INCH * _SCALE * min(1.0, (_MOST_PIXELS / pixels) ** 0.5)
        metadata = {"Title": drawing.title, "CreationDate": None} if kind == "pdf" else {"Title": drawing.title}
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)
    return file.getvalue()


def paint(ax: Any, drawing: Drawing, scale: float, at: Any = None, done: Collection[Any] = ()) -> None:
    """Draw on matplotlib's axes, at `scale` times 96 pixels per inch. The box with the key `at` is marked, those in `done` are tinted."""
    from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
    from matplotlib.path import Path

    ax.set_xlim(0, drawing.width)
    ax.set_ylim(drawing.height, 0)
    ax.axis("off")
    width = 0.8 * scale

    def rounded(box: Box | Frame, radius: float, fill: str, edge: str, order: float, dashed: bool = False, wide: float = width) -> None:
        style = f"round,pad=0,rounding_size={min(radius, box.height / 2)}"
        look = {"facecolor": fill, "edgecolor": edge, "linewidth": wide, "linestyle": "--" if dashed else "-", "zorder": order}
        ax.add_patch(FancyBboxPatch((box.x, box.y), box.width, box.height, style, **look))

    def words(x: float, y: float, text: str, pixels: float, fill: str, order: float, middle: bool = True) -> None:
        size = pixels * _POINTS * scale
        ax.text(x, y, text, fontsize=size, color=fill, ha="center" if middle else "left", va="baseline", zorder=order, clip_on=False)

    for number, frame in enumerate(drawing.frames):
        rounded(frame, 7, FRAMES[frame.depth % 2], "#c3c9d1", 1 + number * 1e-3)
        words(frame.x + 8, frame.y + 14, frame.title, 10, QUIET, 1.9, middle=False)
    for wire in drawing.wires:
        codes, points = [Path.MOVETO], [wire[0]]
        for (x, y), (to_x, to_y) in zip(wire, wire[1:], strict=False):
            bend = (to_y - y) / 2
            codes += [Path.CURVE4] * 3
            points += [(x, y + bend), (to_x, to_y - bend), (to_x, to_y)]
        ax.add_patch(PathPatch(Path(points, codes), fill=False, edgecolor=EDGE, linewidth=width, zorder=2))
        (x, y), back = wire[-1], 5 if wire[-1][1] < wire[-2][1] else -5
        ax.add_patch(Polygon([(x, y), (x - 3, y + back), (x + 3, y + back)], closed=True, facecolor=EDGE, linewidth=0, zorder=2))
    for box in drawing.boxes:
        radius = 5 if box.kind in ("op", "failed", "group", "more") else 14
        here = box.key == at
        fill = DONE if here or box.key in done else FILL[box.kind]
        rounded(box, radius, fill, HERE if here else OUTLINE, 3, box.kind in ("group", "more"), 3 * width if here else width)
        lines = [(box.title, 12, TEXT), *([(box.riders, 10, RIDERS)] if box.riders else []), (box.detail, 10, QUIET)]
        for number, (text, pixels, fill) in enumerate(lines):
            words(box.x + box.width / 2, box.y + 14 + 13.5 * number, text, pixels, fill, 4)
