"""Messages for saving files from the view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Buffer, ToKernel, ToView


@dataclass(frozen=True)
class AskExport(ToKernel):
    """Request a file: the graph in that format, or for "html" the whole view as a standalone page."""

    kind: ClassVar[str] = "ask_export"
    id: int
    format: Literal["html", "json", "dot", "mmd"]


@dataclass(frozen=True)
class Exported(ToView):
    """A file for the view to offer as a download."""

    kind: ClassVar[str] = "exported"
    re: int | None
    recording: str
    name: str  # of the file, without a folder
    media: str  # its MIME type
    content: Buffer  # uint8: the file
    note: str  # what was left out of it, in a sentence; ""
