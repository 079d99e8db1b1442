"""Run all checks on one recording, and report the findings as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import ref

from .. import protocol
from ..protocol.checks import Finding
from ..recording.recording import Recording
from . import distributed, errors, health, losses, not_finite, reach, registered, replaced, shapes, training, waiting
from .case import Case, place, several

ORDER = {"error": 0, "warning": 1, "note": 2}
# finding -> findings that are only its consequences and are dropped
MADE_BY = {
    "optimizer-of-another-model": {"zero-grad-before-step", "step-before-backward"},
    "shape-mismatch": {"broadcast-in-loss"},
    "exploding-gradient": {"learning-rate-too-large"},
    "unused-parameter": {"unused-output"},
    "gradient-cut": {"unused-output", "zero-grad-before-step"},
    "gradient-lost": {"zero-grad-before-step"},
    "step-before-backward": {"zero-grad-before-step"},
    "unregistered-module": {"not-in-optimizer"},
    "zero-gradient": {"learning-rate-zero"},
    "learning-rate-too-large": {"zero-gradient", "dead-units", "saturated"},
}


class Looked(NamedTuple):
    """The findings, and a sentence on what could not be judged ("" if there is nothing)."""

    findings: list[Finding]
    unsure: str


def look(recording: Recording, optimizers: Iterable[ref] = (), thorough: bool = False) -> Looked:
    """Find mistakes in the recorded program, the most severe first. Without `thorough`, only the fast checks run.

    `optimizers` are weak references to the optimizers among the user's variables.
    """
    case = Case(recording, optimizers)
    checks: list[Callable[[], list[Finding]]] = [lambda: shapes.check(case) or errors.check(case)]
    checks += [lambda: not_finite.check(case, thorough), lambda: losses.check(case)]
    checks += [lambda: reach.check(case, thorough), lambda: registered.check(case, thorough)]
    checks += [
        lambda: training.check(case, thorough),
        lambda: health.check(case, thorough),
        lambda: waiting.check(case),
        lambda: distributed.check(case),
    ]
    found = [one for check in checks for one in _done(check, case)]
    consequences = set().union(*[MADE_BY.get(one.code, set()) for one in found]) if found else set()
    causes = sorted((replaced.told(case, one) for one in found if one.code not in consequences), key=lambda one: ORDER[one.severity])
    return Looked(causes, health.unsure(case) if thorough else "")


def _done(check: Callable[[], list[Finding]], case: Case) -> list[Finding]:
    """Run one check. If it fails, return that as a finding, so that the user's cell and the other checks are not affected."""
    try:
        return check()
    except Exception as error:
        sentence = f"A check could not be done: {type(error).__name__}: {error}."
        why = "What it looks for is not known of this code; the other checks have been done."
        return [case.finding("check-failed", "note", sentence, -1, why, "report it, with the code of the cell")]


GLYPHS = {"nan": "✕", "inf": "∞"}
TONES = {"error": "error", "warning": "warm", "note": "accent"}


def flags(findings: list[Finding], failed: int = -1) -> list[protocol.Flag]:
    """Flags at the node of each finding, except the `failed` op, which the view marks itself, and at operands that do not fit."""
    marks: dict[tuple[int, str], protocol.Flag] = {}
    for one in findings:
        tone: Any = TONES[one.severity]
        if one.node >= 0 and one.node != failed:
            glyph = GLYPHS.get(one.code.split("-")[0], "!")
            marks.setdefault((one.node, glyph), protocol.Flag(one.node, glyph, one.sentence, tone))
        for operand in one.operands:
            if operand.marked and operand.node >= 0:
                axes = several([f"axis {i} (size {operand.shape[i]})" for i in operand.marked])
                marks.setdefault((operand.node, "≠"), protocol.Flag(operand.node, "≠", f"{axes} of {operand.name} does not fit", tone))
    return list(marks.values())


def report(looked: Looked, title: str = "") -> str:
    """Format the findings for a terminal."""
    findings, unsure = looked
    head = f"{title}: " if title else ""
    if not findings:
        said = "nothing found. Checked: non-finite values and gradients, shapes, parameters, the training loop, losses."
        return f"{head}{said} {unsure}".rstrip()
    counts = [(kind, sum(one.severity == kind for one in findings)) for kind in ORDER]
    lines = [head + ", ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in counts if n)]
    for one in findings:
        lines += ["", f"{one.severity.upper()} {one.code}: {one.sentence}"]
        if one.site is not None:
            lines.append(f"  {place(one.site)}: {one.site.text}")
        for operand in one.operands:
            axes = "×".join(f">{n}<" if i in operand.marked else str(n) for i, n in enumerate(operand.shape)) or "scalar"
            told = ", ".join(filter(None, [operand.words, operand.value]))
            lines.append(f"  · {operand.name}: {operand.dtype} {axes}{', ' + told if told else ''}")
        lines += [f"  why: {one.why}", f"  fix: {one.fix}"]
    if unsure:
        lines += ["", unsure]
    return "\n".join(lines)
