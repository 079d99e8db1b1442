"""Messages about the findings of the checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from .base import Site, ToKernel, ToView

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Operand:
    """A tensor involved in a finding, with the details that matter there."""

    name: str
    node: int  # -1: not in the graph
    dtype: str
    shape: list[int]
    marked: list[int]  # axes that do not fit
    words: str  # its values: "from 0 to 3, with 2 NaN"; "" if irrelevant
    value: str  # the element in question: "x[0, 2] = −0.5"; ""


@dataclass(frozen=True)
class Finding:
    """One problem, or possible problem."""

    code: str  # a stable name, such as "nan-forward"; docs/checks.md lists all
    severity: Severity
    sentence: str  # what it is
    node: int  # where; -1: nowhere in the graph
    site: Site | None  # the line of code; None: not known
    why: str  # why it matters
    fix: str  # one line that fixes it
    operands: list[Operand] = field(default_factory=list)


@dataclass(frozen=True)
class Findings(ToView):
    """All findings about a recording, most severe first."""

    kind: ClassVar[str] = "findings"
    re: int | None
    recording: str
    findings: list[Finding]
    thorough: bool  # every value was checked; else only what costs next to nothing
    unsure: str  # what could not be judged, in a sentence; ""


@dataclass(frozen=True)
class AskFindings(ToKernel):
    """Request all checks, however long they take."""

    kind: ClassVar[str] = "ask_findings"
    id: int
