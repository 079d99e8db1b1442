"""Messages about a tensor over time: over the steps of a training, or the iterations of a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Buffer, ToKernel, ToView


@dataclass(frozen=True)
class Series:
    """One quantity at n points in time. NaN: no value at that point."""

    what: str  # "value", "gradient", "update", "activation"
    at: Buffer  # int32 (n,): the step or the iteration
    mean: Buffer  # float64 (n,), as std, min, max and norm; over the finite elements
    std: Buffer
    min: Buffer
    max: Buffer
    norm: Buffer
    bad: Buffer  # int32 (n,): how many are NaN or Inf
    low: Buffer  # float64 (n,): where each histogram begins
    high: Buffer
    counts: Buffer  # int32 (n, 64)
    ratio: Buffer | None  # float64 (n,): |update| / |weight|, of a parameter


@dataclass(frozen=True)
class TensorSeries(ToView):
    kind: ClassVar[str] = "tensor_series"
    re: int | None
    recording: str
    node: int
    what: Literal["value", "grad"]
    name: str
    unit: Literal["step", "iteration"]
    series: list[Series]
    note: str  # what is shown, in a sentence
    missing: str  # why there is nothing to show


@dataclass(frozen=True)
class AskSeries(ToKernel):
    kind: ClassVar[str] = "ask_series"
    id: int
    node: int
    what: Literal["value", "grad"]
