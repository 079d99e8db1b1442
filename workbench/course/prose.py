"""Markdown of a lesson as HTML with MathML, or as plain text. HTML in it stays text, but for keys: <kbd>n</kbd>."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

import mistune

from ..protocol import Formula
from ..teach.markup import blocks, formula, plain

_TAGS = {"mi", "mo", "mn", "mtext", "mrow", "mfrac", "msqrt", "msub", "msup", "msubsup", "mover", "mspace"}
_BLOCK = re.compile(r"^\$\$\s*(.+?)\s*\$\$\s*$", re.DOTALL | re.MULTILINE)
_RULE = re.compile(r"^\|[-:| ]+\|\n", re.MULTILINE)  # below the head of a table
_ROW = re.compile(r"^\|(.*)\|\s*$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def html(text: str) -> str:
    """The text as HTML."""
    render = mistune.create_markdown(escape=True, plugins=["table", "math"])
    register: Any = render.renderer
    register.register("inline_math", lambda _, tex: mathml(formula(tex), "inline"))
    register.register("block_math", lambda _, tex: f"<p>{mathml(formula(tex), 'block')}</p>\n")
    made = str(render(_COMMENT.sub("", text)))
    return re.sub(r"&lt;(/?kbd)&gt;", r"<\1>", made)


def mathml(tree: Formula, display: str) -> str:
    """A formula as MathML."""
    return f'<math display="{display}">{_element(tree)}</math>'


def _element(tree: Formula | str) -> str:
    if isinstance(tree, str):
        return escape(tree)
    tag, *children = tree
    inside = "".join(map(_element, children))
    if tag == "mspace":
        return '<mspace width="0.2em"></mspace>'
    if tag == "mo":
        return f'<mo stretchy="false">{inside}</mo>'  # parentheses stay as high as a letter
    return f"<{tag}>{inside}</{tag}>" if tag in _TAGS else inside


@dataclass(frozen=True)
class Paragraph:
    """A paragraph as plain text, or code."""

    text: str
    code: bool = False


def paragraphs(text: str) -> list[Paragraph]:
    """The text as plain paragraphs, without its headings."""
    bare = _COMMENT.sub("", re.sub(r"</?kbd>", "", text))
    bare = _ROW.sub(lambda one: "- " + ": ".join(cell.strip() for cell in one[1].split("|")), _RULE.sub("", bare))
    found = blocks(_BLOCK.sub(lambda one: f"\n${' '.join(one[1].split())}$\n", bare))
    return [Paragraph(plain(block), block[0] == "pre") for block in found if block[0] != "h"]


def heading(text: str) -> str:
    """The first heading of a text as plain text; "" if it has none."""
    return next((plain(block) for block in blocks(text) if block[0] == "h"), "")


def without_heading(text: str) -> str:
    """The text without the line of its first heading."""
    return re.sub(r"^#{1,6}\s.*$", "", text, count=1, flags=re.MULTILINE).strip()
