"""Messages about pinned tensors shown side by side, and the difference of each from one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import ToKernel, ToView
from .tensor import Heat, Histogram, Summary


@dataclass(frozen=True)
class Difference:
    """The difference of a tensor from the base that all are compared with. None: the value is not defined."""

    equal: bool  # every element, bit for bit but for the dtype; NaN equals NaN
    changed: int  # elements that differ
    first: list[int]  # index of the first of them; empty: none
    pair: list[str]  # the two elements there, the other tensor's first
    max_abs: float | None
    mean_abs: float | None
    relative: float | None  # |a - b| / |b| in L2 norms, b being the other tensor
    cosine: float | None
    histogram: Histogram | None  # of a - b
    heat: Heat | None  # of a - b
    words: str


@dataclass(frozen=True)
class Pinned:
    """A tensor, with its values at the time it was pinned."""

    pin: int
    node: int  # in the recording that the view shows; -1: in another one
    what: Literal["value", "grad"]
    name: str
    source: str  # "In [3]", "In [3], step 12 of 31"
    summary: Summary
    histogram: Histogram | None  # all pins have the same ends
    difference: Difference | None  # None: the others are compared with this one, or `apart` gives the reason
    apart: str
    twin: int  # for a pin of another recording, the node of the same name in the one shown; -1: none


@dataclass(frozen=True)
class Compared(ToView):
    """All pins, in the order in which they were set."""

    kind: ClassVar[str] = "compared"
    re: int | None
    recording: str
    pins: list[Pinned]
    base: int  # the pin that the others are compared with; -1: none


@dataclass(frozen=True)
class AskCompare(ToKernel):
    """Change the set of pins, and request the comparison."""

    kind: ClassVar[str] = "ask_compare"
    id: int
    do: Literal["show", "pin", "pin earlier", "unpin", "base", "clear"] = "show"
    node: int = -1  # to pin: this node's value or gradient, or its namesake's in an earlier recording
    what: Literal["value", "grad"] = "value"
    pin: int = -1  # to unpin, or to compare with
