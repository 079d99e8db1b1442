"""The implementation of `wb.profile`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph import timing
from ..session.report import TextReport
from ..session.surface import ReportSession
from ..subjects.recordings import opened_on, recording_of


class TimeSession(ReportSession):
    """A session that opens on the times of a recording."""

    def report(self) -> TextReport:
        return TextReport(timing.report(self.recording, self.graph))


def timed(what: Any, names: Mapping[str, Any]) -> TimeSession:
    """A session on the times of the recording of `what`."""
    return opened_on(TimeSession, recording_of(what, names), "time", names)
