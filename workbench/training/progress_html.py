"""Progress of running loops as HTML: a bar with text, and a small SVG curve for each reported name. All text is escaped."""

from __future__ import annotations

import math
from html import escape

from ..base.output_html import BLUE, ORANGE, block, path, sampled
from ..inspector import number_text
from .progress import SHOWN, Track

_POINTS = 100  # per curve at most
_WIDTH, _HEIGHT, _LEFT = 200, 56, 4
_BAR = "width:180px;height:12px;vertical-align:middle"


def html(tracks: list[Track]) -> str:
    """The tracks as one HTML block, the outermost first and inner ones indented."""
    parts = [_track(track, depth) for depth, track in enumerate(tracks)]
    return block("".join(parts))


def _track(track: Track, depth: int) -> str:
    title = f"<b>{escape(track.title)}</b> " if track.title else ""
    known = track.total is not None and track.done <= track.total
    color = ORANGE if track.ended and not track.whole else BLUE
    look = f'aria-label="{escape(track.title or "Progress", quote=True)}" style="{_BAR};accent-color:{color}"'
    if track.whole:
        bar = f'<progress {look} value="1" max="1"></progress>'
    elif known:
        bar = f'<progress {look} value="{track.done}" max="{max(track.total or 0, 1)}"></progress>'
    else:  # unknown length: an indeterminate bar while the loop runs
        bar = "" if track.ended else f"<progress {look}></progress>"
    curves = "".join(_curve(name, *curve.points(wait=track.ended)) for name, curve in list(track.scalars.items())[:SHOWN])
    more = len(track.scalars) - SHOWN
    rest = "" if more <= 0 else f"<div>and {more} more name{'s' * (more > 1)}</div>"
    drawn = f'<div style="display:flex;flex-wrap:wrap;gap:4px 20px;margin:2px 0 6px">{curves}{rest}</div>' if curves else ""
    return f'<div style="margin-left:{depth * 16}px"><div>{title}{bar} {escape(track.words())}</div>{drawn}</div>'


def _curve(name: str, steps: list[int], values: list[float]) -> str:
    last = values[-1] if values else None
    fine = [x for x in values if math.isfinite(x)]
    bad = len(values) - len(fine)
    warning = f' <span style="color:{ORANGE};font-weight:bold">✕ {bad} not finite</span>' if bad else ""
    head = f"<div>{escape(name)} <b>{escape(number_text(last))}</b>{warning}</div>"
    if not fine:
        return f"<div>{head}</div>"
    low, high = min(fine), max(fine)
    ends = f'<div style="font-size:11px;opacity:.8">from {number_text(low)} to {number_text(high)}</div>'
    words = f"{name}: {len(values)} numbers from {number_text(low)} to {number_text(high)}, the last is {number_text(last)}"
    frame = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(words, quote=True)}"'
    axis = f'<path d="M0.5 0V{_HEIGHT - 0.5}H{_WIDTH}" fill="none" stroke="currentColor" stroke-opacity=".35"/>'
    line = f'<path d="{_path(steps, values, low, high)}" fill="none" stroke="{BLUE}" stroke-width="1.6" stroke-linejoin="round"/>'
    return f'<div>{head}<svg {frame} style="display:block;overflow:visible">{axis}{line}</svg>{ends}</div>'


def _path(steps: list[int], values: list[float], low: float, high: float) -> str:
    """The curve as an SVG path, with gaps at values that are not finite."""
    first, along, span = steps[0], (steps[-1] - steps[0]) or 1, (high - low) or 1.0
    middle = _HEIGHT / 2 if high == low else None

    def place(i: int) -> tuple[float, float]:
        y = middle if middle is not None and math.isfinite(values[i]) else 4 + (_HEIGHT - 10) * (high - values[i]) / span
        return _LEFT + (_WIDTH - 2 * _LEFT) * (steps[i] - first) / along, y

    return path(map(place, sampled(len(values), _POINTS)))
