"""The board as HTML: a table of ranks, sentences, and a time line of computing, waiting and communicating. All text is escaped."""

from __future__ import annotations

from html import escape

from ..base.output_html import BLUE, GRAY, ORANGE, TABLE, block, cell, swatch
from ..graph.timing import seconds_text
from .board import Board, Row, cells
from .calls import Calls

_WAIT, _MOVE, _COMPUTE = ORANGE, BLUE, GRAY
_GLYPH = {
    "computes": ("▶", _MOVE),
    "idle": ("–", _COMPUTE),
    "waits": ("◷", _WAIT),
    "paused": ("❚❚", _WAIT),
    "silent": ("?", _WAIT),
    "dead": ("✕", _WAIT),
}
_WIDTH, _LEFT, _LANE, _BAR, _AXIS = 900, 64, 26, 16, 18


def html(board: Board, line: str | None = None) -> str:
    """The board as one HTML block; `line` is a time line that was drawn before."""
    told = "".join(f'<div style="margin:2px 0">{escape(one)}</div>' for one in board.sentences)
    line = time_line(board.calls) if line is None else line
    return block(f'{_table(board.rows)}<div style="margin:6px 0">{told}</div>{line}', "max-width:1000px")


def _table(rows: list[Row]) -> str:
    heads = (("rank", "right"), ("step", "right"), ("collective", "right"), ("waited", "right"), ("memory", "right"), ("state", "left"))
    head = "".join(cell(name, side, head="col", style="font-weight:normal;opacity:.8") for name, side in heads)
    return (
        f'<div style="overflow-x:auto"><table style="{TABLE}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, rows))}</tbody></table></div>"
    )


def _row(row: Row) -> str:
    glyph, color = _GLYPH[row.status]
    numbers = "".join(cell(escape(text)) for text in cells(row))
    mark = f'<span aria-hidden="true" style="color:{color};display:inline-block;width:20px">{glyph}</span>'
    state = cell(f"{mark}<b>{row.status}</b> {escape(row.words)}", "left", "normal")
    return f'<tr style="background:none">{cell(str(row.rank), head="row")}{numbers}{state}</tr>'


def time_line(calls: Calls) -> str:
    """A lane for each rank with its last collectives, on one time axis; "" if there is none."""
    if not calls.numbers or calls.span <= 0:
        return ""
    start, height = float(calls.entered.min()), _LANE * len(calls.ranks) + _AXIS
    scale = (_WIDTH - _LEFT - 8) / calls.span
    lanes, all_entered, all_there, all_left = [], calls.entered.tolist(), calls.all_there.tolist(), calls.left.tolist()
    for i, rank in enumerate(calls.ranks):
        y = i * _LANE
        lanes.append(f'<text x="0" y="{y + _BAR}" fill="currentColor">rank {rank}</text>')
        lanes.append(_bar(min(all_entered[i]) - start, max(all_left[i]) - start, y, scale, _COMPUTE, 0.35))
        for j, (name, number, nbytes, place) in enumerate(zip(calls.names, calls.numbers, calls.nbytes, calls.places, strict=True)):
            entered, there, left = all_entered[i][j], all_there[i][j], all_left[i][j]
            waited = max(there - entered, 0.0)
            told = f"{name} {number}, {nbytes} B, {place}: waited {seconds_text(waited)}, then {seconds_text(max(left - there, 0.0))}"
            bars = _bar(entered - start, entered + waited - start, y, scale, _WAIT) + _bar(
                entered + waited - start, left - start, y, scale, _MOVE
            )
            lanes.append(f"<g><title>{escape(told)}</title>{bars}</g>")
    y = _LANE * len(calls.ranks)
    marks = "".join(
        f'<text x="{_LEFT + part * (_WIDTH - _LEFT - 8):.0f}" y="{y + 13}" text-anchor="{anchor}" fill="currentColor">'
        f"{escape(seconds_text(part * calls.span) if part else '0')}</text>"
        for part, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
    )
    totals = "; ".join(
        f"rank {rank} computes {seconds_text(float(c))}, waits {seconds_text(float(w))}, communicates {seconds_text(float(m))}"
        for rank, c, w, m in zip(calls.ranks, calls.computed, calls.waited, calls.communicated, strict=True)
    )
    frame = f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(totals, quote=True)}"'
    return (
        f"{_legend(len(calls.numbers))}"
        f'<svg {frame} style="display:block;width:100%;max-width:{_WIDTH}px;font-size:12px">{"".join(lanes)}{marks}</svg>'
    )


def _bar(start: float, stop: float, y: float, scale: float, color: str, opacity: float = 1) -> str:
    if stop <= start:
        return ""
    width = max((stop - start) * scale, 0.5)
    faint = "" if opacity == 1 else f' fill-opacity="{opacity}"'
    return f'<rect x="{_LEFT + start * scale:.1f}" y="{y + 4}" width="{width:.1f}" height="{_BAR}" fill="{color}"{faint}/>'


def _legend(count: int) -> str:
    head = f'<span style="margin-right:16px;opacity:.8">The last {count} collectives</span>'
    words = swatch(_COMPUTE, "computes", 0.35) + swatch(_WAIT, "waits for a rank") + swatch(_MOVE, "communicates")
    return f'<div style="margin:4px 0">{head}{words}</div>'
