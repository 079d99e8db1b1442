"""Messages for saving files from the view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Buffer, ToKernel, ToView


@dataclass(frozen=True)
class AskExport(ToKernel):
    """The graph, or the whole as a page of its own, as a file of that format."""

    kind: ClassVar[str] = "ask_export"
    id: int
    format: Literal["html", "json", "dot", "mmd"]


@dataclass(frozen=True)
class Exported(ToView):
    """A file for the view to hand to its reader."""

    kind: ClassVar[str] = "exported"
    re: int | None
    recording: str
    name: str  # of the file, without a folder
    media: str  # its MIME type
    content: Buffer  # uint8: the file
    note: str  # what was left out of it, in a sentence; ""
