"""Times as they travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Buffer, ToKernel, ToView


@dataclass(frozen=True)
class TimeTotal:
    """What one line, op or module took, in seconds."""

    name: str  # the text of the line, "mul", "layers.0"
    label: str  # of a module: its class
    site: int  # of a line; -1: none
    calls: int  # of ops, of a module; forward
    forward: float
    backward: float
    inside: float  # of a module: seconds of both that modules inside it took
    node: int  # the one that took longest; -1: it is not in the graph


@dataclass(frozen=True)
class Timing(ToView):
    """When each op and each backward step ran, and sums of that. Seconds; the begin of the recording is 0."""

    kind: ClassVar[str] = "timing"
    re: int | None
    recording: str
    seconds: float  # how long the recorded code ran
    forward: float  # of it in ops
    backward: float  # of it in backward steps
    begin: float  # the window that the events are of
    end: float
    events: Buffer  # float64 (n, 2): begin and duration, in the order of the begins
    places: Buffer  # int32 (n, 2): node, -1 for one that is not in the graph; 0 forward, 1 backward
    names: list[str]  # of ops
    ops: Buffer  # int32 (n): place in `names`
    left_out: int  # events in the window that are shorter than those told, for there are too many
    left_out_seconds: float
    lines: list[TimeTotal]  # longest first, at most 200 of each
    by_op: list[TimeTotal]
    by_module: list[TimeTotal]
    cost: str  # what recording itself cost, in a sentence; "" when it is not known
    missing: str  # why there are no times; ""


@dataclass(frozen=True)
class AskTiming(ToKernel):
    """Events that touch the window from `begin` to `end`, in seconds; without an end, all."""

    kind: ClassVar[str] = "ask_timing"
    id: int
    begin: float = 0.0
    end: float = -1.0
