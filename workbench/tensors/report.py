"""The report of `wb.describe` on one tensor."""

from __future__ import annotations

from dataclasses import dataclass

from .. import inspector
from ..protocol import Fact, Histogram, Summary
from ..session.report import Report

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, repr=False)
class Inspection(Report):
    """A report on one tensor: facts, counts and moments, the distribution, and its gradient."""

    name: str
    facts: list[Fact]
    summary: Summary
    histogram: Histogram | None
    grad: Summary | None
    missing: str  # why there is no gradient; "" if there is one
    tokens: str = ""  # ids decoded to tokens
    layout: str = ""  # the memory layout, if it is not contiguous

    @property
    def text(self) -> str:  # type: ignore[override]
        """The report."""
        s = self.summary
        lines = [f"{self.name + ': ' if self.name else ''}{s.text}"]
        lines += [f"  {fact.label}: {fact.text}" for fact in self.facts]
        lines.append(f"  signs: {s.negative} negative, {s.zero} zero, {s.positive} positive; {s.nan} NaN, {s.pos_inf + s.neg_inf} Inf")
        if self.histogram is not None and s.size > inspector.FEW:
            lines.append(
                f"  values: {inspector.number_text(self.histogram.low)} {bars(self.histogram)} {inspector.number_text(self.histogram.high)}"
            )
        lines += [f"  {label}: {text}" for label, text in (("tokens", self.tokens), ("memory", self.layout)) if text]
        lines.append(f"  grad: {self.grad.text if self.grad is not None else self.missing}")
        return "\n".join(lines)


def bars(histogram: Histogram, width: int = 32) -> str:
    """The histogram as a row of block characters."""
    per = len(histogram.counts) // width
    sums = [sum(histogram.counts[i * per : (i + 1) * per]) for i in range(width)]
    top = max(sums) or 1
    return "".join(_BARS[0 if not n else max(1, round(n * (len(_BARS) - 1) / top))] for n in sums)
