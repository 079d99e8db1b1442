"""Slides as one page of HTML that needs neither a kernel nor a network: every view in it is a live replay."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..exporting.page import START, policy_of, script_of
from .prose import html

if TYPE_CHECKING:
    from .slides import Slide

_STYLE = (Path(__file__).parent / "files" / "deck.css").read_text(encoding="utf-8")
_KEYS = (
    ("→ ← Page Down Page Up", "next and previous slide"),
    ("Home End", "first and last slide"),
    ("n Shift n", "next and previous page of a lesson in the view"),
    ("F10 Shift F10", "next and previous step of the backward pass; → and ← after a click into the view"),
    ("Shift p", "the view alone, large, with values hidden: v reveals the next one; Shift p ends it"),
    ("f", "full screen"),
    ("h", "hide the text, show it again"),
    ("Esc", "leave the view: → and ← turn slides again"),
)


def page(title: str, slides: list[Slide]) -> bytes:
    """Return the page. Raises RuntimeError if the view has not been built."""
    script = script_of()
    sections, data = [], []
    for number, slide in enumerate(slides, 1):
        sections.append(_section(number, slide))
        if slide.view is not None:
            packed = base64.b64encode(slide.view.data).decode()
            data.append(f'<script type="application/octet-stream" id="data-{number}">{packed}</script>\n')
    keys = "".join(f"<tr><td>{escape(keys)}</td><td>{escape(does)}</td></tr>" for keys, does in _KEYS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy_of(script.text))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body data-theme="light">\n'
        f'<main id="deck" tabindex="-1">\n{"".join(sections)}</main>\n'
        f'<footer><span id="deck-title">{escape(title)}</span><span class="room"></span>'
        '<button id="deck-keys" aria-expanded="false">keys</button>'
        '<button id="deck-back" aria-label="previous slide">‹</button><span id="deck-at" role="status"></span>'
        '<button id="deck-next" aria-label="next slide">›</button></footer>\n'
        f'<aside id="deck-help" hidden><table>{keys}</table></aside>\n'
        f'{"".join(data)}<script type="application/octet-stream" id="script">{script.packed}</script>\n<script>{START}</script>\n'
        "</body>\n</html>\n"
    ).encode()


def _section(number: int, slide: Slide) -> str:
    text = f'<div class="text">{html(slide.text)}</div>' if slide.text else ""
    head = f"<header><h1>{escape(slide.title)}</h1></header>"  # the only slide that is seen
    if slide.view is not None:
        head += '<h2 class="unseen">Live view</h2><h3 class="unseen">Graph, steps and tensors</h3>'
        kind, stage = "view", f'<div class="stage" data-slide="data-{number}"><noscript>{slide.view.picture}</noscript></div>'
    elif slide.figure:
        picture = base64.b64encode(slide.figure).decode()
        kind, stage = "figure", f'<div class="stage"><img src="data:image/png;base64,{picture}" alt="{escape(slide.title)}"></div>'
    else:
        kind, stage = "words", ""
    return f'<section class="slide {kind}" id="slide-{number}">{head}{text}{stage}</section>\n'
