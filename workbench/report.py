"""Results of `wb.inspect`, `wb.memory`, `wb.time` and `wb.check` that print themselves, in a notebook or a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from . import inspector
from .protocol import Fact, Finding, Histogram, Memory, ParameterRow, Summary

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Inspection:
    """A report on one tensor: facts, counts and moments, the distribution, and its gradient."""

    name: str
    facts: list[Fact]
    summary: Summary
    histogram: Histogram | None
    grad: Summary | None
    missing: str  # why there is no gradient; "" if there is one
    tokens: str = ""  # ids decoded to tokens
    layout: str = ""  # the memory layout, if it is not contiguous

    def __repr__(self) -> str:
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

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.3">{escape(repr(self))}</pre>'


@dataclass(frozen=True)
class MemoryReport:
    """Memory use by category, and the largest holdings with their reasons."""

    text: str
    message: Memory

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.3">{escape(self.text)}</pre>'


@dataclass(frozen=True)
class TimeReport:
    """Where the time went, by line, op and module."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.3">{escape(self.text)}</pre>'


@dataclass(frozen=True)
class CheckReport:
    """The result of the checks: `findings` one by one, each with its `code`."""

    text: str
    findings: list[Finding]

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.3;white-space:pre-wrap">{escape(self.text)}</pre>'


@dataclass(frozen=True)
class ModelReport:
    """The parameters of a model, each with its gradient."""

    title: str
    totals: list[Fact]
    parameters: list[ParameterRow]

    def __repr__(self) -> str:
        head = ", ".join(f"{fact.label}: {fact.text}" for fact in self.totals)
        wide = max((len(row.name) for row in self.parameters), default=0)
        lines = [f"{self.title + ': ' if self.title else ''}{head}"]
        for row in self.parameters:
            shape, norm = inspector.shape_text(tuple(row.shape)), _number(row.norm)
            gradient = row.why or ", ".join(filter(None, [f"gradient norm {_number(row.grad_norm)}", row.flag]))
            lines.append(f"  {row.name:<{wide}}  {shape:>9}  norm {norm:<9}  {gradient}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.3">{escape(repr(self))}</pre>'


def _number(x: float | None) -> str:
    return "–" if x is None else inspector.number_text(x)


def bars(histogram: Histogram, width: int = 32) -> str:
    """The histogram as a row of block characters."""
    per = len(histogram.counts) // width
    sums = [sum(histogram.counts[i * per : (i + 1) * per]) for i in range(width)]
    top = max(sums) or 1
    return "".join(_BARS[0 if not n else max(1, round(n * (len(_BARS) - 1) / top))] for n in sums)
