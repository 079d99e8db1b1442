"""The implementation of `wb.memory`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import memory_use
from ..protocol import Memory
from ..session.report import Report
from ..session.surface import ReportSession
from ..subjects.recordings import opened_on, recording_of


@dataclass(frozen=True, repr=False)
class MemoryReport(Report):
    """The report of `wb.memory`.

    Attributes:
        text: the report as text.
        message: the figures: `live` and `peak` in bytes, `totals` by category, `holdings` with their reasons, `lines`, `ops` and `modules`.
    """

    text: str
    message: Memory


class MemorySession(ReportSession):
    """A session that opens on the memory of a recording."""

    def report(self) -> MemoryReport:
        message, _ = memory_use.answer(self.recording, None, self.graph)
        return MemoryReport(memory_use.report(self.recording, self.graph), message)


def remembered(what: Any, names: Mapping[str, Any]) -> MemorySession:
    """A session on the memory of the recording of `what`."""
    return opened_on(MemorySession, recording_of(what, names), "memory", names)
