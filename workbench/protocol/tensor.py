"""One tensor as it travels: health, histogram, heat map."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from .base import Buffer, Fact, Rules, ToKernel, ToView


@dataclass(frozen=True)
class Summary:
    """A tensor's health in one line. Counts are exact. None: the number does not exist (empty, or not finite)."""

    shape: list[int]
    dtype: str
    size: int
    nan: int
    pos_inf: int
    neg_inf: int
    negative: int
    zero: int
    positive: int
    min: float | None  # min, max, mean, std over the finite elements
    max: float | None
    mean: float | None
    std: float | None
    norm: float | None  # L2; None when NaN or Inf are in it
    values: list[float | int | bool | str] | None  # all elements when there are at most 6, "nan", "inf", "-inf" as text
    text: str  # one line for a screen reader


@dataclass(frozen=True)
class Histogram:
    low: float
    high: float
    counts: list[int]
    sampled: bool  # True: from a sample of the finite elements; counts in Summary are exact all the same


@dataclass(frozen=True)
class Heat:
    """A picture of at most 128 x 128 cells of a 2-D slice. Each cell pools a block of elements."""

    rows: int  # of the slice, before pooling
    cols: int
    mean: Buffer  # float32 (r, c), finite elements only
    absmax: Buffer  # float32 (r, c)
    bad: Buffer  # uint8 (r, c): bit 0 NaN, bit 1 +Inf, bit 2 -Inf somewhere in the block


@dataclass(frozen=True)
class Inspected(ToView):
    kind: ClassVar[str] = "inspected"
    re: int | None
    recording: str
    node: int
    what: Literal["value", "grad"]
    name: str
    facts: list[Fact]
    summary: Summary | None  # None: no such tensor; `missing` says why
    histogram: Histogram | None
    heat: Heat | None
    slice: list[int]  # index of each leading axis that the heat map does not show
    forward: Rules | None  # the op that made it
    missing: str  # "why is grad None?" answered, or why the value is gone; "" when it is there


@dataclass(frozen=True)
class Inspect(ToKernel):
    kind: ClassVar[str] = "inspect"
    id: int
    node: int
    what: Literal["value", "grad"] = "value"
    slice: list[int] = field(default_factory=list)
    exact: bool = False  # False: the histogram may be sampled
