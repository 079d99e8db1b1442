"""Sphinx extension: formulas become MathML while the site is built, so that pages need neither a script nor fonts for them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    writer.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own; a wide one scrolls."""
    writer.body.append(f'<div class="formula">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def mathml(node: nodes.Element, display: str) -> str:
    """The MathML of a formula. Warns if it has a command that the converter does not know."""
    made = convert(node.astext().strip(), display=display)
    if unknown := re.search(r">\s*(\\\w+)", made):
        logger.warning("unknown command %s in the formula %r", unknown[1], node.astext(), location=node)
    return made
