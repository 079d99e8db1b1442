"""The fenced blocks of a page of the documentation, and its programs as the cells of a notebook."""

from __future__ import annotations

import re
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path, *kinds: str) -> list[tuple[str, str]]:
    """The blocks of these kinds, such as "python", in their order: kind and text."""
    return [(kind, text) for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind in kinds]


def cells_of(page: Path, until: str) -> list[str]:
    """The Python blocks as cells, after one that loads the workbench, up to the first that contains `until`."""
    cells = ["%load_ext workbench"]
    for _, text in blocks(page, "python"):
        cells.append(text)
        if until in text:
            return cells
    raise ValueError(f"{page.name}: expected a Python block that contains {until!r}, found none")
