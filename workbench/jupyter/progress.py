"""Draw a loop's progress, or a board of ranks, in a notebook: one display in the cell, updated and saved in its final state."""

from __future__ import annotations

from typing import Any

from IPython.display import display
from ipywidgets import HTML

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
            self._handle = _Relayed(html) if cells.on_engine() else display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class _Relayed:
    """A display on an engine of ipyparallel, which relays the changes of a widget to the notebook, but not those of a display."""

    def __init__(self, html: str) -> None:
        self._widget = HTML(html)
        display(self._widget)

    def update(self, data: dict[str, str], raw: bool) -> None:
        self._widget.value = data["text/html"]


class Cell:
    """The display of one loop, and of the loops inside it."""

    def __init__(self) -> None:
        self.cell = cells.number()
        self._place = Place()

    def draw(self, tracks: list[Track]) -> None:
        """Update the display."""
        self._place.draw(html(tracks), "\n".join(map(repr, tracks)))
