"""What the HTML of cell outputs consists of. It is readable on a light and on a dark page, and all text in it is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

BLUE, ORANGE, GRAY = "#2f83c5", "#d55e00", "#7f8a94"  # all 3:1 on white and on JupyterLab's dark gray
TABLE = "border-collapse:collapse;font-size:13px;margin:0;border:none"
_CELL = (
    "padding:2px 14px 2px 0;text-align:{};white-space:{};vertical-align:top;font-variant-numeric:tabular-nums;background:none;color:inherit"
)


def block(inner: str, style: str = "") -> str:
    """A block in the font of the page."""
    return f'<div style="font-family:var(--jp-ui-font-family,sans-serif);font-size:13px;line-height:1.5;{style}">{inner}</div>'


def cell(inner: str, side: str = "right", space: str = "nowrap", head: str = "", style: str = "") -> str:
    """A cell of a table, aligned to a side; with `head`, the heading of a "col" or "row"."""
    look = f'style="{_CELL.format(side, space)};{style}"'
    return f'<th scope="{head}" {look}>{inner}</th>' if head else f"<td {look}>{inner}</td>"


def swatch(color: str, words: str, opacity: float = 1) -> str:
    """An entry of a legend."""
    box = f"display:inline-block;width:12px;height:12px;background:{color};opacity:{opacity};margin-right:5px;vertical-align:-1px"
    return f'<span style="margin-right:16px"><span aria-hidden="true" style="{box}"></span>{escape(words)}</span>'


def sampled(count: int, most: int) -> list[int]:
    """At most about `most` of the indices up to `count`, evenly spaced, with the first and the last."""
    return sorted({(i + 1) * count // min(count, most) - 1 for i in range(min(count, most))} | {0}) if count else []


def path(points: Iterable[tuple[float, float]]) -> str:
    """A curve as an SVG path, with gaps at points that are not finite."""
    out, pen = [], "M"
    for x, y in points:
        if not math.isfinite(y):
            pen = "M"
            continue
        alone = "h.1" if pen == "M" else ""  # makes a single point visible
        out.append(f"{pen}{x:.1f} {y:.1f}{alone}")
        pen = "L"
    return "".join(out)
