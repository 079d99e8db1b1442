"""Messages about small marks on nodes, each with its reason (breakpoints, stale cells, NaN, differences), and about overlay numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Buffer, ToKernel, ToView


@dataclass(frozen=True)
class Flag:
    """One mark on one node."""

    node: int
    glyph: str  # one or two characters, drawn at the box's corner
    words: str  # what it means, for the tool tip and the screen reader
    tone: Literal["accent", "warm", "error"]


@dataclass(frozen=True)
class Flags(ToView):
    """The flags of one origin; they replace those previously sent for the same origin."""

    kind: ClassVar[str] = "flags"
    re: int | None
    recording: str
    origin: str  # the source of the flags: "stale", "nan", "difference"
    flags: list[Flag]


@dataclass(frozen=True)
class CellRun:
    """A cell of the recording: the run that was recorded, and its latest run."""

    cell_id: str  # the notebook's id of it
    cell: str  # label of the run that made these nodes: "In [2]"
    now: str  # label of its latest run
    text: int  # CRC-32 of the text that ran, without comments, empty lines, and space around lines; -1: not known


@dataclass(frozen=True)
class CellRuns(ToView):
    """All cells of the recording. Nodes made by an earlier run, or by a text other than the current one, are marked as stale."""

    kind: ClassVar[str] = "cell_runs"
    re: int | None
    recording: str
    runs: list[CellRun]


@dataclass(frozen=True)
class AskMetric(ToKernel):
    """Request one number per node, for an overlay."""

    kind: ClassVar[str] = "ask_metric"
    id: int
    metric: str  # a key of METRICS in workbench/backward/metrics.py


@dataclass(frozen=True)
class Metric(ToView):
    kind: ClassVar[str] = "metric"
    re: int | None
    recording: str
    metric: str
    values: Buffer  # float32, one for each node; NaN: no number
    known: int  # how many nodes have one
    missing: str  # why there are none, in a sentence; "" if there are some
