"""The report of `wb.describe` on a module: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from .. import inspector
from ..protocol import Fact, ParameterRow
from ..session.report import Report


@dataclass(frozen=True, repr=False)
class ModelReport(Report):
    """The parameters of a model, each with its gradient."""

    title: str
    totals: list[Fact]
    parameters: list[ParameterRow]

    @property
    def text(self) -> str:  # type: ignore[override]
        """The report."""
        head = ", ".join(f"{fact.label}: {fact.text}" for fact in self.totals)
        wide = max((len(row.name) for row in self.parameters), default=0)
        lines = [f"{self.title + ': ' if self.title else ''}{head}"]
        for row in self.parameters:
            shape, norm = inspector.shape_text(tuple(row.shape)), _number(row.norm)
            gradient = row.why or ", ".join(filter(None, [f"gradient norm {_number(row.grad_norm)}", row.flag]))
            lines.append(f"  {row.name:<{wide}}  {shape:>9}  norm {norm:<9}  {gradient}")
        return "\n".join(lines)


def _number(x: float | None) -> str:
    return "–" if x is None else inspector.number_text(x)
