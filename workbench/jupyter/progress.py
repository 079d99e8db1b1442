"""Draw a loop's progress, or a board of ranks, in a notebook: one display in the cell, updated and saved in its final state."""

from __future__ import annotations

from typing import Any

from IPython.display import display

from ..training.progress import Track
from ..training.progress_html import html
from . import cells


class Place:
    """A display in the output of the running cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, html: str, text: str) -> None:
        """Update the display, with HTML for pages and the same as plain text."""
        data = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class Cell:
    """The display of one loop, and of the loops inside it."""

    def __init__(self) -> None:
        self.cell = cells.number()
        self._place = Place()

    def draw(self, tracks: list[Track]) -> None:
        """Update the display."""
        self._place.draw(html(tracks), "\n".join(map(repr, tracks)))
