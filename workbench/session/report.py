"""Text reports, which print themselves in a notebook or a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


class Report:
    """A report, which prints itself in a notebook or a terminal.

    Attributes:
        text: the report as text.
    """

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.3;white-space:pre-wrap">{escape(self.text)}</pre>'


@dataclass(frozen=True, repr=False)
class TextReport(Report):
    """A report that is only text."""

    text: str
