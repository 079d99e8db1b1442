"""The implementation of `wb.check` and `wb.guard`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from engine.base import observe

from ..protocol import Finding
from ..recording.recording import recent
from ..session.report import Report
from ..session.surface import ReportSession, ShownSession
from ..subjects.recordings import opened_on, recording_of
from ..torch_models import loaded
from . import answers, look
from .guard import Guard
from .torch_guard import guarding


@dataclass(frozen=True, repr=False)
class CheckReport(Report):
    """The report of `wb.check`.

    Attributes:
        text: the report as text.
        findings: the findings, most serious first. Each has a stable `code` such as "nan-forward" (the guide lists all), a `severity`
            ("error", "warning" or "note"), a `sentence`, `why` it matters, a line that is a `fix`, and its `node` and `site` in the code.
    """

    text: str
    findings: list[Finding]


class CheckedSession(ReportSession):
    """A session that opens on the findings of the checks."""

    def report(self) -> CheckReport:
        return _report(self)


def checked(what: Any, names: Mapping[str, Any], thorough: bool) -> CheckedSession:
    """A session with the findings about the recording of `what`; by default also about code that ended before its first op."""
    ended = next((r for r in reversed(recent) if r.count or r.witness.ended is not None), None) if what is None else None
    session = opened_on(CheckedSession, ended or recording_of(what, names), "checks", names)
    answers.check(session, thorough)
    return session


def inspected(session: ShownSession) -> CheckReport:
    """Run every check over what a session shows. It opens on the findings if there are any."""
    if not session.thorough:
        answers.check(session, thorough=True)
    if session.findings:
        session.graph.view = "checks"
    return _report(session)


def _report(session: ShownSession) -> CheckReport:
    return CheckReport(look.report(look.Looked(session.findings or [], session.unsure), session.recording.title), session.findings or [])


@contextmanager
def guard(nan: bool = True, inf: bool = True) -> Iterator[None]:
    """Within the block, raise NotFiniteError at the first op that makes a NaN, or (`inf`) an infinity from finite values."""
    wanted = frozenset((*(("NaN",) if nan else ()), *(("+Inf", "−Inf") if inf else ())))
    with ExitStack() as stack:
        stack.enter_context(observe.observing(Guard(wanted, observe.current)))
        if loaded.torch() is not None:
            stack.enter_context(guarding(wanted))
        yield
