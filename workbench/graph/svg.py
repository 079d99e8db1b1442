"""SVG pictures of the graph and of a tensor's histogram, for pages without a kernel. All names are escaped."""

from __future__ import annotations

from html import escape

from .. import protocol
from ..inspector import number_text
from .drawing import Drawing, draw
from .outline import clip

_MARGIN = 8
FILL = {
    "op": "#ffffff",
    "parameter": "#e3ecff",
    "leaf": "#e3ecff",
    "input": "#e6f4e6",
    "constant": "#f1f1f1",
    "group": "#fff3d6",
    "more": "#f1f1f1",
    "failed": "#ffd9d6",
}
TEXT, QUIET, RIDERS, EDGE, OUTLINE, FRAMES = "#15181d", "#4a505a", "#2a52a3", "#8a8f98", "#5f6570", ("#f6f7f9", "#eceff3")


def picture(graph: protocol.Graph) -> str:
    """Return an SVG of a whole graph message, on a white background, since the page may be dark."""
    return written(draw(graph))


def written(drawing: Drawing) -> str:
    """Return the drawing as SVG with attributes only, for pages that allow neither scripts nor styles."""
    title = escape(drawing.title)
    size = f'viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}" width="{drawing.width:.0f}" height="{drawing.height:.0f}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}" font-family="sans-serif" font-size="12">'
        f'<title>{title}</title><rect width="100%" height="100%" fill="#ffffff"/>'
    ]
    for frame in drawing.frames:
        box = f'x="{frame.x:.1f}" y="{frame.y:.1f}" width="{frame.width:.1f}" height="{frame.height:.1f}"'
        out.append(f'<rect {box} rx="7" fill="{FRAMES[frame.depth % 2]}" stroke="#c3c9d1"/>')
        out.append(f'<text x="{frame.x + 8:.1f}" y="{frame.y + 14:.1f}" font-size="10" fill="{QUIET}">{escape(frame.title)}</text>')
    out += [f'<path d="{curve(wire)}" fill="none" stroke="{EDGE}"/>' for wire in drawing.wires]
    for wire in drawing.wires:
        (x, y), up = wire[-1], wire[-1][1] < wire[-2][1]
        back = 5 if up else -5
        out.append(f'<path d="M{x:.1f} {y:.1f}l-3 {back}h6z" fill="{EDGE}"/>')
    for box in drawing.boxes:
        middle = f'x="{box.x + box.width / 2:.1f}" text-anchor="middle"'
        dash = ' stroke-dasharray="4 2"' if box.kind in ("group", "more") else ""
        round_ = 5 if box.kind in ("op", "failed", "group", "more") else 14
        frame = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
        out.append(f'<rect {frame} rx="{round_}" fill="{FILL[box.kind]}" stroke="{OUTLINE}"{dash}/>')
        lines = [(box.title, 12, TEXT), *([(box.riders, 10, RIDERS)] if box.riders else []), (box.detail, 10, QUIET)]
        for number, (text, pixels, fill) in enumerate(lines):
            smaller = f' font-size="{pixels}"' if pixels != 12 else ""
            out.append(f'<text {middle} y="{box.y + 14 + 13.5 * number:.1f}"{smaller} fill="{fill}">{escape(text)}</text>')
    return "".join([*out, "</svg>"])


def curve(wire: list[tuple[float, float]]) -> str:
    """The SVG path of a wire: vertical lines, and curves that start and end vertically."""
    (x, y), *rest = wire
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        if abs(to_x - x) < 0.5:
            parts.append(f"V{to_y:.1f}")
        else:
            bend = (to_y - y) / 2
            parts.append(f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}")
            x = to_x
        y = to_y
    return "".join(parts)


def distribution(name: str, summary: protocol.Summary, histogram: protocol.Histogram | None) -> str:
    """Return an SVG of a tensor on a white background: its summary as a line of text, and its histogram as bars."""
    width, height, top = 560, 120, 24
    title = escape(f"{name + ': ' if name else ''}{summary.text}")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{title}" font-family="sans-serif" font-size="12">'
        f'<title>{title}</title><rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="15" fill="#4a505a">{escape(clip(f"{name} {summary.text}".strip(), 76))}</text>',
    ]
    if histogram is not None:
        floor, most = height - 18, max(histogram.counts) or 1
        step = (width - 2 * _MARGIN) / len(histogram.counts)
        for i, count in enumerate(histogram.counts):
            if count:
                bar = max(1.0, (floor - top) * count / most)
                frame = f'x="{_MARGIN + i * step:.1f}" y="{floor - bar:.1f}" width="{step * 0.9:.1f}" height="{bar:.1f}"'
                out.append(f'<rect {frame} fill="#2f6fbf"/>')
        ends = ((_MARGIN, "start", histogram.low), (width - _MARGIN, "end", histogram.high))
        out += [
            f'<text x="{x}" y="{height - 4}" text-anchor="{a}" font-size="10" fill="#4a505a">{number_text(v)}</text>' for x, a, v in ends
        ]
    out.append("</svg>")
    return "".join(out)
