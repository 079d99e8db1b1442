"""Several processes of one job in one view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import ToKernel, ToView


@dataclass(frozen=True)
class Ranks(ToView):
    """Which process the graph is of."""

    kind: ClassVar[str] = "ranks"
    re: int | None
    recording: str
    rank: int
    size: int
    sentences: list[str]  # what differs between the processes


@dataclass(frozen=True)
class AskRank(ToKernel):
    """Show the graph of another process. The answer is the graph and all that belongs to it, then its `Ranks`."""

    kind: ClassVar[str] = "ask_rank"
    id: int
    rank: int
