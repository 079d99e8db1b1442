"""Statistics of a training run's tensors as arrays: one array per column, one row per kept step."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from .. import inspector
from ..inspector.statistics import Measuring, Statistics, Wanted, max_magnitude

if TYPE_CHECKING:
    from .history import History

# The columns of a quantity: those of inspector.summary, then mean and maximum |x| over the finite elements.
COUNTS = ("size", "nan", "pos_inf", "neg_inf", "negative", "zero", "positive")
COLUMNS = (*COUNTS, "min", "max", "mean", "std", "norm", "absmean", "absmax")


@dataclass(frozen=True)
class Measured:
    """The statistics and histogram of one tensor at one step."""

    numbers: numpy.ndarray  # float64, in the order of COLUMNS; NaN if undefined
    low: float  # the histogram's ends; NaN if no element is finite
    high: float
    counts: numpy.ndarray  # uint32 (inspector.BINS,)


class Measurement:
    """One tensor's `Measured`, which may still be on its way from a GPU."""

    __slots__ = ("_measuring", "_at", "_found")

    def __init__(self, measuring: Measuring, at: int) -> None:
        self._measuring, self._at = measuring, at
        self._found: Measured | None = None
        if measuring.done:
            self.get()

    @property
    def done(self) -> bool:
        """Whether `get` returns at once."""
        return self._found is not None or self._measuring.done

    def get(self) -> Measured:
        if self._found is None:
            self._found = _measured(self._measuring.get()[self._at])
            del self._measuring
        return self._found


def measured(arrays: Sequence[Any]) -> list[Measurement]:
    """Measure arrays: statistics and histograms. On a GPU, nothing waits until they are read.

    On the CPU, above 1,000,000 elements, a histogram is of an evenly spaced sample.
    """
    measuring = Measuring(arrays, Wanted(magnitude=True, histogram=True))
    return [Measurement(measuring, at) for at in range(len(arrays))]


def _measured(one: Statistics) -> Measured:
    s, h = one.summary, one.histogram
    found = [*(getattr(s, name) for name in COLUMNS[:-2]), one.magnitude, max_magnitude(s)]
    numbers = numpy.array([math.nan if x is None else x for x in found], numpy.float64)
    if h is None:
        return Measured(numbers, math.nan, math.nan, numpy.zeros(inspector.BINS, numpy.uint32))
    return Measured(numbers, h.low, h.high, numpy.array(h.counts, numpy.uint32))


@dataclass(frozen=True)
class Histograms:
    """Histograms over the kept steps of a history: row i belongs to step `history.steps[i]`, with 64 equal bins.

    Attributes:
        low: lower end of the bins, float64 (steps,); NaN at steps without a histogram.
        high: upper end of the bins, float64 (steps,).
        counts: the counts, uint32 (steps, 64).
    """

    low: numpy.ndarray
    high: numpy.ndarray
    counts: numpy.ndarray


class Quantity:
    """One tensor over the kept steps of a history.

    Each statistic is an attribute, a float64 array (steps,) that is NaN at steps without a value: `size`, `nan`, `pos_inf`, `neg_inf`,
    `zero`, `negative`, `positive`, `min`, `max`, `mean`, `std`, `norm`, `mean_magnitude`, `max_magnitude`.

    Attributes:
        numbers: all statistics, float64 (steps, statistics).
        present: whether the tensor existed at each step, bool (steps,). A parameter that no gradient reached has no `grad`.
        histogram: the histograms, one row per kept step.
    """

    def __init__(self, history: History) -> None:
        self._history, self._rows = weakref.ref(history), {}

    def put(self, step: int, one: Measurement) -> None:
        self._rows[step] = one

    def thin(self, stride: int) -> None:
        self._rows = {step: one for step, one in self._rows.items() if step % stride == 0}

    @property
    def numbers(self) -> numpy.ndarray:
        """All statistics, float64 (steps, columns), with the columns in the order of COLUMNS."""
        missing = numpy.full(len(COLUMNS), numpy.nan)
        return numpy.array([missing if r is None else r.numbers for r in self._kept()]).reshape(-1, len(COLUMNS))

    @property
    def present(self) -> numpy.ndarray:
        """Whether the tensor existed at each step, bool (steps,). A parameter that no gradient reached has no `grad`."""
        return numpy.array([step in self._rows for step in self.steps()], bool)

    @property
    def histogram(self) -> Histograms:
        """The histograms, one row per kept step."""
        rows = self._kept()
        low, high = (numpy.array([math.nan if r is None else getattr(r, end) for r in rows], numpy.float64) for end in ("low", "high"))
        none = numpy.zeros(inspector.BINS, numpy.uint32)
        counts = numpy.array([none if r is None else r.counts for r in rows], numpy.uint32).reshape(-1, inspector.BINS)
        return Histograms(low, high, counts)

    def __getattr__(self, name: str) -> numpy.ndarray:
        if name not in COLUMNS:
            raise AttributeError(f"There is no column {name!r}; there are {', '.join(COLUMNS)}, and `histogram`, `present`, `numbers`.")
        return self.numbers[:, COLUMNS.index(name)]

    def steps(self) -> list[int]:
        """The steps that the history keeps. Raises RuntimeError if the history has been garbage-collected."""
        history = self._history()
        if history is None:
            raise RuntimeError("The history of this series no longer exists: keep the object that wb.history returned.")
        return history.steps.tolist()

    def _kept(self) -> list[Measured | None]:
        rows = [self._rows.get(step) for step in self.steps()]
        return [None if row is None else row.get() for row in rows]


@dataclass(frozen=True)
class ParameterHistory:
    """A parameter over the steps of a training.

    Attributes:
        name: its name.
        weight: its value before the step.
        grad: its gradient as the optimizer used it.
        update: its change by the step.
        ratio: update-to-weight ratio |Δw| / |w| (L2 norms), float64 (steps,); NaN if not finite. About 1e-3 is healthy (Stanford's CS231n).
    """

    name: str
    weight: Quantity
    grad: Quantity
    update: Quantity

    @property
    def ratio(self) -> numpy.ndarray:
        """Update-to-weight ratio |Δw| / |w| (L2 norms) at each step, float64 (steps,); NaN if not finite. About 1e-3 is healthy.

        The rule of thumb is from Stanford's CS231n, "Ratio of weights:updates".
        """
        with numpy.errstate(all="ignore"):
            found = self.update.norm / self.weight.norm
        return numpy.where(numpy.isfinite(found), found, numpy.nan)

    def thin(self, stride: int) -> None:
        for quantity in (self.weight, self.grad, self.update):
            quantity.thin(stride)


@dataclass(frozen=True)
class ModuleHistory:
    """A module over the steps of a training.

    Attributes:
        name: its name.
        type: its type.
        activation: its output in the last forward pass before the step, the first one if it was called several times.
        calls: the number of calls in that forward pass, int64 (steps,).
    """

    name: str  # "" is the model itself, as in named_modules()
    type: str
    activation: Quantity
    _calls: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def calls(self) -> numpy.ndarray:
        """The number of calls in that forward pass, int64 (steps,)."""
        return numpy.array([self._calls.get(step, 0) for step in self.activation.steps()], numpy.int64)

    def put(self, step: int, calls: int, output: Measurement | None) -> None:
        self._calls[step] = calls
        if output is not None:
            self.activation.put(step, output)

    def thin(self, stride: int) -> None:
        self.activation.thin(stride)
        for step in [step for step in self._calls if step % stride]:
            del self._calls[step]
