"""Recorded steps as HTML: why they were kept, the loss curve, the last steps, and the code that repeats one. All text is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy

from ..base.output_html import BLUE, ORANGE, TABLE, block, cell, path, sampled, swatch
from ..base.readable import readable
from ..inspector import count_text, number_text
from .log import Step

SHOWN = 7  # steps in the table
_POINTS = 300  # of the curve at most
_DECADES = 3  # a curve that spans more is drawn on a logarithmic axis
_APART = 5  # pixels between steps from which on each has a dot
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 150, 58, 16, 18


def html(headline: str, curve: numpy.ndarray, steps: Sequence[Step], at: int | None, left_out: Mapping[str, str], code: str) -> str:
    """The steps as one HTML block.

    Args:
        headline: what they are, and why they were kept.
        curve: numbers of steps and their losses, as an array of shape (steps, 2).
        steps: those that can be repeated.
        at: the number of the step that they were kept for; None for none.
        left_out: values that were not kept, and their types.
        code: what repeats a step, "" for nothing.
    """
    mark = "" if at is None else f'<span aria-hidden="true" style="color:{ORANGE}">✕</span> '
    parts = [f"<div>{mark}<b>{_text(headline)}</b></div>"]
    if len(curve):
        parts.append(_picture(curve, steps, at))
    if steps:
        parts.append(_table(steps, at))
    if left_out:
        parts.append(f"<div>Not kept: {_text(', '.join(f'{name} ({kind})' for name, kind in left_out.items()))}.</div>")
    if code:
        font = "font-family:var(--jp-code-font-family,monospace);user-select:all"
        parts.append(f'<div>To repeat the step and look into it: <code style="{font}">{_text(code)}</code></div>')
    return block("".join(parts), f"max-width:{_WIDTH}px;display:flex;flex-direction:column;gap:6px")


def _text(words: str) -> str:
    return escape(readable(words, len(words)))


def _picture(curve: numpy.ndarray, steps: Sequence[Step], at: int | None) -> str:
    """The loss of each step; the background of those that were kept is tinted, and a line marks the step that they were kept for."""
    numbers, losses = curve.T.tolist()
    fine = [loss for loss in losses if math.isfinite(loss)]
    low, high = min(fine, default=0.0), max(fine, default=0.0)
    log = low > 0 and high > low * 10**_DECADES
    right, bottom = _WIDTH - 8, _HEIGHT - _BOTTOM
    reached = [numbers[0], numbers[-1], *(step.number for step in steps)]  # the step that was left has no loss, or is not in the curve yet
    first, last = min(reached), max(reached)

    def x(number: float) -> float:
        return _LEFT + 6 + (right - _LEFT - 12) * (number - first) / (last - first or 1)

    def y(loss: float) -> float:
        if not math.isfinite(loss):
            return math.nan
        from_high, whole = (math.log(high) - math.log(loss), math.log(high) - math.log(low)) if log else (high - loss, high - low)
        part = from_high / whole if whole else 0.5
        return _TOP + (bottom - _TOP - 6) * part

    drawn, dots = [], []
    if steps:
        begin, end = x(steps[0].number) - 4, x(steps[-1].number) + 4
        if end - begin > _APART * len(steps):
            dots = [_dot(x(step.number), y(step.loss), 2.2, BLUE) for step in steps if step.losses]
        drawn.append(f'<rect x="{begin:.1f}" y="0" width="{end - begin:.1f}" height="{bottom}" fill="{BLUE}" fill-opacity=".16"/>')
    drawn.append(f'<path d="M{_LEFT}.5 0V{bottom}.5H{right}" fill="none" stroke="currentColor" stroke-opacity=".35"/>')
    points = ((x(numbers[i]), y(losses[i])) for i in sampled(len(numbers), _POINTS))
    drawn.append(f'<path d="{path(points)}" fill="none" stroke="{BLUE}" stroke-width="1.6" stroke-linejoin="round"/>')
    drawn += dots
    if at is not None and at >= first:
        loss = dict(zip(numbers, losses, strict=True)).get(at, math.nan)
        line = f'<path d="M{x(at):.1f} 0V{bottom}" stroke="{ORANGE}" stroke-width="1.6" stroke-dasharray="4 3"/>'
        drawn.append(line + _dot(x(at), y(loss), 4, ORANGE))
    size = 'font-size="11" fill="currentColor"'
    ends = [(low, bottom - 2), (high, _TOP + 4)] if high > low else [(low, (_TOP + bottom) / 2)] if fine else []
    drawn += [f'<text x="{_LEFT - 6}" y="{at_y}" text-anchor="end" {size}>{escape(number_text(loss))}</text>' for loss, at_y in ends]
    drawn += [
        f'<text x="{x(number):.1f}" y="{_HEIGHT - 4}" text-anchor="{anchor}" {size}>{words}{number:.0f}</text>'
        for number, anchor, words in ((first, "start", "step "), (last, "end", ""))
        if number != first or words
    ]
    words = f"Loss of {count_text(len(numbers), 'step')}, from {number_text(low)} to {number_text(high)}"
    frame = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(words, quote=True)}"'
    legend = swatch(BLUE, "loss, logarithmic" if log else "loss")
    legend += swatch(BLUE, f"steps that can be repeated, {steps[0].number} to {steps[-1].number}", 0.3) if steps else ""
    legend += swatch(ORANGE, f"step {at}") if at is not None else ""
    return f'<svg {frame} style="display:block;width:100%">{"".join(drawn)}</svg><div style="opacity:.9">{legend}</div>'


def _dot(x: float, y: float, radius: float, color: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}"/>' if math.isfinite(y) else ""


def _table(steps: Sequence[Step], at: int | None) -> str:
    """The last steps and their losses, one column for each."""
    last = steps[-SHOWN:]

    def row(name: str, texts: Sequence[str]) -> str:
        shown = (
            cell(text, style=f"color:{ORANGE};font-weight:bold" if step.number == at else "")
            for step, text in zip(last, texts, strict=True)
        )
        return f'<tr style="background:none">{cell(name, "left", head="row", style="font-weight:normal;opacity:.8")}{"".join(shown)}</tr>'

    rows = row("step", [escape(str(step.number)) for step in last])
    rows += row("loss", [escape(number_text(step.loss if step.losses else None)) for step in last])
    return f'<div style="overflow-x:auto"><table style="{TABLE}"><tbody>{rows}</tbody></table></div>'
