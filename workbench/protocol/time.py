"""Messages about the time that ops and backward steps took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Buffer, ToKernel, ToView


@dataclass(frozen=True)
class TimeTotal:
    """The time that one line, op or module took, in seconds."""

    name: str  # the text of the line, "mul", "layers.0"
    label: str  # for a module, its class
    site: int  # for a line; -1: none
    calls: int  # of ops, of a module; forward
    forward: float
    backward: float
    inside: float  # for a module, seconds of both kinds spent in modules inside it
    node: int  # the one that took longest; -1: it is not in the graph


@dataclass(frozen=True)
class Timing(ToView):
    """When each op and each backward step ran, and totals, in seconds since the recording began."""

    kind: ClassVar[str] = "timing"
    re: int | None
    recording: str
    seconds: float  # how long the recorded code ran
    forward: float  # seconds in ops
    backward: float  # seconds in backward steps
    begin: float  # the window of the events
    end: float
    events: Buffer  # float64 (n, 2): begin and duration, sorted by begin
    places: Buffer  # int32 (n, 2): node, -1 for one that is not in the graph; 0 forward, 1 backward
    names: list[str]  # of ops
    ops: Buffer  # int32 (n): index in `names`
    left_out: int  # shorter events in the window that were not sent, as there are too many
    left_out_seconds: float
    lines: list[TimeTotal]  # longest first, at most 200 of each
    by_op: list[TimeTotal]
    by_module: list[TimeTotal]
    cost: str  # the cost of recording itself, in a sentence; "" if unknown
    missing: str  # why there are no times; ""


@dataclass(frozen=True)
class AskTiming(ToKernel):
    """Request the events that overlap the window from `begin` to `end`, in seconds; an `end` before `begin` means no limit."""

    kind: ClassVar[str] = "ask_timing"
    id: int
    begin: float = 0.0
    end: float = -1.0
