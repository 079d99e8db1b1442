"""Draw a loop's progress in a notebook: one display in the cell, updated while the loop runs and saved in its final state."""

from __future__ import annotations

from typing import Any

from IPython.display import display

from ..training.progress import Track
from ..training.progress_html import html
from . import cells


class Cell:
    """The display of one loop, and of the loops inside it, in the output of the running cell."""

    def __init__(self) -> None:
        self.cell = cells.number()
        self._handle: Any = None

    def draw(self, tracks: list[Track]) -> None:
        """Update the display, with HTML for pages and the same as plain text."""
        data = {"text/html": html(tracks), "text/plain": "\n".join(map(repr, tracks))}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
