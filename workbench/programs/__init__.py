"""The programs that XLA runs for a compiled step: as a graph, and their parts as an HTML table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.compiler.explain import Explanation, Program

PARTS = 24  # rows of a table
_COLUMNS = (("share", "right"), ("time", "right"), ("", "left"), ("ops", "left"), ("line", "left"), ("part", "left"))
_STYLE = 'style="padding:0 .5em;white-space:nowrap;text-align'


def html(explanation: Explanation) -> str:
    """The explanation as HTML: a table of each program's parts, the most expensive first."""
    programs = "".join(map(_program, explanation.programs))
    eager = "".join(f"<p>eager for {escape(', '.join(given) or 'no arguments')}: {escape(why)}</p>" for given, why in explanation.eager)
    nothing = "" if programs or eager else f"<p>{escape(str(explanation).partition(': ')[2])}</p>"
    return f'<div style="font-family:monospace;line-height:1.4"><b>{escape(explanation.name)}</b>{programs}{eager}{nothing}</div>'


def _program(program: Program) -> str:
    from engine.compiler.explain import time_text

    head = "".join(f'<th {_STYLE}:{side}">{title}</th>' for title, side in _COLUMNS)
    rows = [f"<tr>{head}</tr>"]
    for part in program.ordered[:PARTS]:
        share, time = program.share(part), "" if part.seconds is None else time_text(part.seconds)
        bar = f'<div style="width:{160 * share:.0f}px;height:.7em;background:#3b6fd4"></div>'
        texts = [escape(text) for text in (part.ops, ", ".join(part.lines[:3]), part.name)]
        cells = zip((f"{share:.1%}", time, bar, *texts), _COLUMNS, strict=True)
        row = "".join(f'<td {_STYLE}:{side}">{cell}</td>' for cell, (_, side) in cells)
        rows.append(f"<tr>{row}</tr>")
    notes = [f"… {len(program.parts) - PARTS} more …"] if len(program.parts) > PARTS else []
    notes += ["Shares are estimated from the work; explain() with arguments measures them."] if program.seconds is None else []
    facts = escape("\n".join(program.facts))
    return (
        f'<pre style="margin:.3em 0;white-space:pre-wrap;word-break:normal">{facts}</pre><table>{"".join(rows)}</table>'
        f'<div style="opacity:.75">{"<br>".join(notes)}</div>'
    )
