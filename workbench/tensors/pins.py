"""Pinned tensors: copies kept for comparison with one another, across steps of a pass and across recordings."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy

from .. import inspector
from ..inspector.heat_map import Look
from ..inspector.numbers import norm, real, wide
from ..inspector.statistics import Wanted, statistics
from ..protocol import Difference, Heat, Histogram, Pinned, Refused
from ..recording.recording import Recording, recent

MOST = 6
LARGEST = 64 << 20  # bytes of one pin
What = Literal["value", "grad"]


@dataclass(frozen=True)
class Pin:
    """A copy of a tensor at one moment."""

    number: int
    recording: str  # the name of its recording
    node: int
    what: What
    name: str
    source: str
    array: Any


class Board:
    """All pins of this kernel. They outlive recordings, so a cell that runs again can be compared with its earlier run."""

    def __init__(self) -> None:
        self.pins: list[Pin] = []
        self.base = -1  # the pin that others are compared with
        self._numbers = itertools.count(1)

    def add(self, recording: Recording, node: int, what: What, array: Any, moment: str = "") -> Pin:
        """Pin a copy. Raises `Refused` if there are too many pins or the array is too large."""
        if len(self.pins) >= MOST:
            raise Refused(f"{MOST} tensors are pinned, which is as many as can be compared. Unpin one first.")
        array = array if hasattr(array, "nbytes") else numpy.asarray(array)  # a number among an op's operands
        if array.nbytes > LARGEST:
            size, most = inspector.bytes_text(array.nbytes), inspector.bytes_text(LARGEST)
            raise Refused(f"A pin keeps a copy, and this tensor has {size}; at most {most} are kept. Pin a part of it, such as x[0].")
        name = recording.called(node)
        source = ", ".join(filter(None, (recording.title, moment)))
        pin = Pin(next(self._numbers), recording.name, node, what, name, source, array.copy())
        self.pins.append(pin)
        if self.base < 0:
            self.base = pin.number
        return pin

    def remove(self, number: int) -> None:
        """Remove a pin. If it was the base, the first remaining pin becomes the base."""
        self.pins = [pin for pin in self.pins if pin.number != number]
        if self.base == number or not self.pins:
            self.base = self.pins[0].number if self.pins else -1

    def clear(self) -> None:
        self.pins.clear()
        self.base = -1

    def compare_with(self, number: int) -> None:
        """Set the pin that all others are compared with. Raises `Refused` if there is no such pin."""
        if all(pin.number != number for pin in self.pins):
            raise Refused(f"Pin {number} no longer exists.")
        self.base = number

    def told(self, recording: Recording) -> tuple[list[Pinned], list[bytes]]:
        """All pins with their differences from the base, for a view of this recording; and the buffers of the heat maps."""
        ends = common_ends([pin.array for pin in self.pins])
        base = next((pin for pin in self.pins if pin.number == self.base), None)
        found, buffers = [], []
        measured = statistics([pin.array for pin in self.pins], Wanted(histogram=True, ends=ends))
        for pin, s in zip(self.pins, measured, strict=True):
            told, apart = None, ""
            if base is not None and pin is not base:
                if pin.array.shape == base.array.shape:
                    told, more = difference(pin.array, base.array, len(buffers))
                    buffers += more
                else:
                    mine, other = inspector.shape_text(pin.array.shape), inspector.shape_text(base.array.shape)
                    apart = f"Its shape {mine} is not {base.name}'s, {other}, so there is no difference to take."
            here = pin.recording == recording.name
            twin = -1 if here else namesake(recording, pin.name)
            found.append(
                Pinned(pin.number, pin.node if here else -1, pin.what, pin.name, pin.source, s.summary, s.histogram, told, apart, twin)
            )
        return found, buffers


BOARD = Board()


def common_ends(arrays: list[Any]) -> tuple[float, float] | None:
    """The minimum and maximum of the finite elements of all arrays; None if there are none."""
    known = statistics(arrays, Wanted(histogram=True, exact=True))
    found = [h for s, _, h in known if h is not None and s.min is not None]
    return (min(h.low for h in found), max(h.high for h in found)) if found else None


def namesake(recording: Recording, name: str) -> int:
    """The last row with this name; -1 if there is none."""
    return max((row for row, called in recording.names.items() if called == name and recording.kind[row] != "constant"), default=-1)


def earlier(recording: Recording, row: int) -> tuple[Recording, int] | None:
    """The newest earlier recording with a tensor of the same name whose value is known, and the row there; None if there is none."""
    name = recording.names.get(row)
    if not name:
        return None
    before = []
    for other in recent:
        if other is recording:
            break
        before.append(other)
    for other in reversed(before):
        found = namesake(other, name)
        if found >= 0 and other.value(found) is not None:
            return other, found
    return None


def difference(a: Any, b: Any, first_buffer: int = 0) -> tuple[Difference, list[bytes]]:
    """The difference of `a` from `b`, an array of the same shape, in double precision; for complex arrays, the magnitude of `a - b`.

    The buffers belong to its heat map.
    """
    x, y = wide(a), wide(b)
    with numpy.errstate(all="ignore"):
        changed = ~((x == y) | (numpy.isnan(x) & numpy.isnan(y)))
        apart = real(numpy.where(changed, x - y, 0)).astype(numpy.float64)  # 0 for Inf minus the same Inf
    count = int(numpy.count_nonzero(changed))
    first: list[int] = []
    pair: list[str] = []
    if count:
        first = [int(n) for n in numpy.unravel_index(int(changed.reshape(-1).argmax()), x.shape)]
        at = tuple(first)
        pair = [str(inspector.host(one)[at]) for one in (b, a)]
    fine = numpy.isfinite(apart)
    sizes = numpy.abs(apart[fine])
    whole = bool(fine.all()) and bool(numpy.isfinite(y).all())
    mine, below, above = map(norm, (x, y, apart)) if whole else (0.0, 0.0, 0.0)
    told = Difference(
        equal=not count,
        changed=count,
        first=first,
        pair=pair,
        max_abs=float(sizes.max()) if sizes.size and whole else None,
        mean_abs=float(sizes.mean()) if sizes.size and whole else None,
        relative=above / below if below else None,
        cosine=_clipped(float(numpy.vdot(y / below, x / mine).real)) if below and mine else None,
        histogram=_histogram(apart, count),
        heat=None,
        words="",
    )
    heat, buffers = inspector.heat(apart, Look()) if count and x.size > 1 else (None, [])
    if heat is not None:
        heat = _moved(heat, first_buffer)
    return Difference(**{**told.__dict__, "heat": heat, "words": words(told, x.size)}), buffers


def _clipped(x: float) -> float:
    return min(1.0, max(-1.0, x))


def _histogram(apart: numpy.ndarray, count: int) -> Histogram | None:
    return inspector.histogram(apart) if count else None


def _moved(heat: Heat, by: int) -> Heat:
    """The heat map with its buffer indices shifted by `by`."""
    values = heat.values.__class__(heat.values.index + by, heat.values.dtype, heat.values.shape)
    marks = None if heat.marks is None else heat.marks.__class__(heat.marks.index + by, heat.marks.dtype, heat.marks.shape)
    return Heat(**{**heat.__dict__, "values": values, "marks": marks})


def words(d: Difference, size: int) -> str:
    """Describe the difference in one sentence."""
    if d.equal:
        return "Equal in every element."
    place = f"[{', '.join(map(str, d.first))}]" if d.first else "its only element"
    share = "it differs" if size == 1 else f"{d.changed:,} of {inspector.count_text(size, 'element')} differ{'s' * (d.changed == 1)}"
    parts = [f"{share}, first at {place}: {d.pair[0]} there, {d.pair[1]} here"]
    if d.max_abs is not None:
        parts.append(f"largest difference {inspector.number_text(d.max_abs)}")
    if d.relative is not None and math.isfinite(d.relative):
        parts.append(f"relative {inspector.number_text(d.relative)}")
    if d.cosine is not None:
        parts.append(f"cosine {inspector.number_text(d.cosine)}")
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]
