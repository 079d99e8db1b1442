"""A training loop under the view's control, as it travels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import ToKernel, ToView


@dataclass(frozen=True)
class Training(ToView):
    """How far a loop under `wb.loop` is."""

    kind: ClassVar[str] = "training"
    re: int | None
    recording: str
    turn: int  # turns that have been gone through
    total: int  # -1: unknown
    state: Literal["waits", "runs", "ended"]
    resets: bool  # it can be put back to its start


@dataclass(frozen=True)
class Train(ToKernel):
    """What the loop shall do: answered with how far it is then."""

    kind: ClassVar[str] = "train"
    id: int
    do: Literal["play", "pause", "step", "reset", "end"]
