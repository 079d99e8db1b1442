"""The programs that XLA runs for a compiled step: as a graph, and their parts as an HTML table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.compiler.explain import Explanation, Program

PARTS = 24  # rows of a table
_HEAD = (("share", "right"), ("time", "right"), ("", "left"), ("ops", "left"), ("line", "left"), ("part", "left"))


def html(explanation: Explanation) -> str:
    """The explanation as HTML: a table of each program's parts, the most expensive first."""
    programs = "".join(map(_program, explanation.programs))
    eager = "".join(f"<p>eager for {escape(', '.join(given) or 'no arguments')}: {escape(why)}</p>" for given, why in explanation.eager)
    nothing = "" if programs or eager else f"<p>{escape(str(explanation).partition(': ')[2])}</p>"
    return f'<div style="font-family:monospace;line-height:1.4"><b>{escape(explanation.name)}</b>{programs}{eager}{nothing}</div>'


def _program(program: Program) -> str:
    from engine.compiler.explain import time_text

    table = ""
    for part in program.ordered[:PARTS]:
        share = program.share(part)
        bar = f'<div style="width:{160 * share:.0f}px;height:.7em;background:#3b6fd4"></div>'
        cells = (f"{share:.1%}", "" if part.seconds is None else time_text(part.seconds), bar, escape(part.ops), escape(", ".join(part.lines[:3])), escape(part.name))
        table += "<tr>" + "".join(f'<td style="text-align:{side};padding:0 .5em;white-space:nowrap">{cell}</td>' for cell, (_, side) in zip(cells, _HEAD, strict=True)) + "</tr>"
    titles = "".join(f'<th style="text-align:{side};padding:0 .5em;white-space:nowrap">{title}</th>' for title, side in _HEAD)
    rest = len(program.parts) - PARTS
    more = f'<tr><td colspan="{len(_HEAD)}" style="opacity:.75;text-align:left">… {rest} more …</td></tr>' if rest > 0 else ""
    note = "" if program.seconds is not None else '<p style="opacity:.75">Shares are estimated from the work; explain(...) with arguments measures.</p>'
    return f'<pre style="margin:.3em 0;white-space:pre-wrap;word-break:normal">{escape(chr(10).join(program.facts))}</pre><table><thead><tr>{titles}</tr></thead><tbody>{table}{more}</tbody></table>{note}'
