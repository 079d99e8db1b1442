"""Messages about a training loop controlled by the view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import ToKernel, ToView


@dataclass(frozen=True)
class Training(ToView):
    """The progress of a loop under `wb.loop`."""

    kind: ClassVar[str] = "training"
    re: int | None
    recording: str
    turn: int  # iterations done
    total: int  # -1: unknown
    state: Literal["waits", "runs", "ended"]
    resets: bool  # whether it can be reset to its start


@dataclass(frozen=True)
class Train(ToKernel):
    """Control the loop. The answer is its progress afterwards."""

    kind: ClassVar[str] = "train"
    id: int
    do: Literal["play", "pause", "step", "reset", "end"]
