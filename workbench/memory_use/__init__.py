"""Memory use of a recorded program over time and the reasons for it: the data of the memory view.

`log` holds the recording's events as columns; `timeline`, `living`, `shares` and `predict` read it; `device` reads the machine's memory.
"""

from __future__ import annotations

from typing import Any

from .. import protocol
from ..graph.graph import Graph
from ..recording.recording import Recording
from . import living
from . import report as _report
from .log import CATEGORIES, Log
from .shares import Shares
from .timeline import line

__all__ = ["answer", "report", "Log"]


def answer(recording: Recording, re: int | None, graph: Any) -> tuple[protocol.Memory, list[bytes]]:
    """The memory of the recorded program, now and over its events. Bytes held only by the recording are counted separately."""
    log = Log(recording)
    found, held = living.now(log, graph)
    told, buffers = line(log, graph)
    shares = Shares(log, graph)
    savers, saving = shares.savers()
    row = int(log.rows_of_events()[log.peak_event]) if log.count else -1
    devices = [protocol.DeviceBytes(name, int(live[-1]), int(live.max())) for name, live in log.by_device().items()]
    message = protocol.Memory(
        re, recording.name, log.now, log.peak, row, _totals(log), devices, recording.held_alone(), told, found, held, shares.ops(),
        shares.lines(), shares.modules(), savers, saving,
    )  # fmt: skip
    return message, buffers


def _totals(log: Log) -> list[protocol.Total]:
    sums = []
    for event in (log.count, log.peak_event):
        blocks = log.alive_after(event)
        categories = log.categories_at(event, blocks)
        sums.append([int(log.bytes[blocks][categories == c].sum()) for c in range(len(CATEGORIES))])
    return [protocol.Total(name, now, peak) for name, now, peak in zip(CATEGORIES, *sums, strict=True)]  # type: ignore[arg-type]


def report(recording: Recording, graph: Graph) -> str:
    """Return the memory view as text."""
    message, _ = answer(recording, None, graph)
    peak = living.moment(Log(recording), None, graph, -1) if message.line.count else None
    return _report.text(recording, message, peak, graph.sites)
