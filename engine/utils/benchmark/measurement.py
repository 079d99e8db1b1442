"""`Measurement`: the times measured by a `Timer`, and their summary in PyTorch's format."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy

_SUSPICIOUS, _BAD = 0.1, 0.25  # thresholds of interquartile range / median for warnings
_LEAST_ERROR = 25e-9  # seconds, the assumed clock resolution
_MOST_FIGURES = 4


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit that suits a time in seconds: its name, and its length in seconds."""
    name = {-3: "ns", -2: "us", -1: "ms"}.get(int(math.log10(t) // 3), "s")
    return name, {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[name]


def trim_sigfig(x: float, n: int) -> float:
    """Round to `n` significant digits."""
    if not x:
        return 0.0
    scale = 10 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale)


@dataclass(frozen=True)
class TaskSpec:
    """The statement that was measured, its setup and its labels, without the values of variables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement if there is no label."""
        sub = f": {self.sub_label}" if self.sub_label else ""
        if self.label is not None or "\n" not in self.stmt:
            return (self.stmt if self.label is None else self.label) + sub
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """Return the setup as text, empty if there is none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return the title, description and setup."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts)


@dataclass(repr=False)
class Measurement:
    """Times of a statement: each of `raw_times`, in seconds, is for `number_per_run` runs."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds per run."""
        return [t / self.number_per_run for t in self.raw_times]

    @cached_property
    def _quartiles(self) -> list[float]:
        return [float(q) for q in numpy.quantile(self.times, [0.25, 0.5, 0.75])]

    @property
    def median(self) -> float:
        """Median time per run, in seconds."""
        return self._quartiles[1]

    @property
    def mean(self) -> float:
        """Mean time per run, in seconds."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """Interquartile range of the times per run, in seconds."""
        return self._quartiles[2] - self._quartiles[0]

    @property
    def significant_figures(self) -> int:
        """Number of significant digits of the median, 1 to 4, from the spread of the middle half."""
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        error = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)), _LEAST_ERROR)
        return min(max(math.floor(math.log10(self.median / error)), 1), _MOST_FIGURES)

    def meets_confidence(self, threshold: float = _SUSPICIOUS) -> bool:
        """Return whether the interquartile range is below `threshold` times the median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether the spread of the times makes them unreliable."""
        return not self.meets_confidence()

    @property
    def as_row_name(self) -> str:
        """The row name in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n, threads, (unit, scale) = len(self.raw_times), self.task_spec.num_threads, select_unit(self.median)
        low, _, high = (f"{q / scale:.2f}" for q in self._quartiles)
        lines = [object.__repr__(self), self.task_spec.summarize(), f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}"]
        if n >= 4:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low} to {high})")
        each = " per measurement," if n > 1 else " ,"
        lines.append(f"  {n} measurement{'s'[: n > 1]}, {self.number_per_run} runs{each} {threads} thread{'s'[: threads > 1]}")
        if self.has_warnings:
            lines.append(f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the median measurement.")
            environment = "This could indicate system fluctuation." if self.meets_confidence(_BAD) else ""
            lines.append(f"           {environment or 'This suggests significant environmental influence.'}")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Merge measurements of the same task, as single runs and without metadata."""
        times: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            times.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, found, task) for task, found in times.items()]
