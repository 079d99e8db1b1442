"""The implementation of `wb.across_ranks`: parameters and gradients over all ranks, and the first op whose result differs."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

import engine.distributed as dist
from engine.core.tensor import Tensor
from engine.nn import Module

from ..inspector import host, number_text
from ..protocol import Flag
from ..recording.recording import Recording
from ..session.report import Report, TextReport
from ..session.session import Session
from ..session.surface import ReportSession
from ..subjects.recordings import opened_on, recording_of
from .board import named


@dataclass(frozen=True)
class Spread:
    """A parameter or a gradient over all ranks.

    Attributes:
        name: the parameter's name; a gradient's ends in ".grad".
        low: the smallest element on any rank.
        high: the largest.
        norms: the norm on each rank, NaN where there is none.
        spread: the largest difference between two ranks in one element; NaN if not all ranks have it.
        equal: whether it is the same on all ranks, bit for bit.
    """

    name: str
    low: float
    high: float
    norms: tuple[float, ...]
    spread: float
    equal: bool


@dataclass(frozen=True, repr=False)
class SpreadReport(Report):
    """The parameters and gradients of a model over all ranks."""

    rows: list[Spread]

    @property
    def text(self) -> str:  # type: ignore[override]
        """The report."""
        head = ("", "min", "max", "norm", "spread over ranks")
        body = [
            (row.name, number_text(row.low), number_text(row.high), _range(row.norms), "equal" if row.equal else number_text(row.spread))
            for row in self.rows
        ]
        widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
        lines = [
            "  ".join(one.ljust(widths[0]) if i == 0 else one.rjust(widths[i]) for i, one in enumerate(line)) for line in (head, *body)
        ]
        differ = sum(not row.equal for row in self.rows)
        return "\n".join([f"{differ} of {len(self.rows)} differ between ranks" if differ else "Equal on all ranks", *lines])


def _range(norms: tuple[float, ...]) -> str:
    known = [one for one in norms if one == one]
    if not known:
        return "–"
    low, high = number_text(min(known)), number_text(max(known))
    return low if low == high else f"{low} to {high}"


def spread(model: Module) -> SpreadReport:
    """Compare parameters and gradients over all ranks; all of them call this."""
    mine: dict[str, Any] = {}
    for name, p in model.named_parameters():
        mine[name] = host(p.array)
        if p.grad is not None:
            mine[f"{name}.grad"] = host(p.grad.array)
    facts = _everywhere({name: (a.shape, _low(a), _high(a), float(numpy.linalg.norm(a)), _hash(a)) for name, a in mine.items()})
    rows = []
    for name in dict.fromkeys(name for one in facts for name in one):
        there = [one[name] for one in facts if name in one]
        apart = numpy.nan
        if len(there) == len(facts) and len({one[0] for one in there}) == 1 and there[0][1] is not None:
            low, high = Tensor._wrap(mine[name].copy()), Tensor._wrap(mine[name].copy())
            dist.all_reduce(low, dist.ReduceOp.MIN)
            dist.all_reduce(high, dist.ReduceOp.MAX)
            apart = float((high.array - low.array).max())
        lows, highs = [one[1] for one in there if one[1] is not None], [one[2] for one in there if one[2] is not None]
        norms = tuple(one[name][3] if name in one else numpy.nan for one in facts)
        equal = len(there) == len(facts) and len({one[4] for one in there}) == 1
        rows.append(Spread(name, min(lows, default=numpy.nan), max(highs, default=numpy.nan), norms, apart, equal))
    return SpreadReport(rows)


def _everywhere(mine: Any) -> list[Any]:
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    return found


def _low(array: numpy.ndarray) -> float | None:
    return float(array.min()) if array.size and array.dtype.kind != "c" else None


def _high(array: numpy.ndarray) -> float | None:
    return float(array.max()) if array.size and array.dtype.kind != "c" else None


def _hash(array: numpy.ndarray) -> int:
    return zlib.crc32(numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8))


class Row(NamedTuple):
    """What a rank tells of a row of its recording."""

    what: tuple  # op and shape: the same in the same program
    sources: tuple[int, ...]
    hash: int | None  # of the value; None if it is gone


class Origin(NamedTuple):
    """A row that differs between ranks while all that it was computed from is equal: where a difference begins."""

    row: int
    kind: str  # "input", "parameter", "op", ...
    called: str
    groups: list[list[int]]  # ranks with equal values


def _rows(r: Recording) -> list[Row]:
    found = []
    for row in range(r.count):
        array = r.value(row)
        if isinstance(array, bool | int | float | complex):  # a constant
            array = numpy.array(array)
        elif array is not None:
            array = None if r.ops[row] is not None and r.overwritten(row) else host(array)
        sources = tuple(source for source, _ in r.inputs(row))
        found.append(Row((r.op_name(row), tuple(r.shape[row])), sources, None if array is None else _hash(array)))
    return found


def origins(r: Recording, ranks: list[list[Row]]) -> tuple[list[Origin], int]:
    """Where differences begin, and the first row at which the programs are not the same (-1: they are)."""
    length = min(map(len, ranks))
    parted = next((i for i in range(length) if len({one[i].what for one in ranks}) > 1), -1 if len({*map(len, ranks)}) == 1 else length)
    found, differs = [], set()
    for i in range(length if parted < 0 else parted):
        groups: dict[int | None, list[int]] = {}
        for rank, rows in enumerate(ranks):
            groups.setdefault(rows[i].hash, []).append(rank)
        from_another = any(source in differs for source in ranks[0][i].sources)
        if len(groups) > 1 and None not in groups:
            differs.add(i)
            if not from_another:
                found.append(Origin(i, "op" if r.ops[i] is not None else r.kind[i], r.called(i), list(groups.values())))
        elif None in groups and from_another:
            differs.add(i)
    return found, parted


@dataclass(frozen=True)
class Among:
    """One rank's recording among those of all.

    Attributes:
        rank: the rank.
        size: the number of ranks.
        origins: the rows that differ while what they were computed from is equal: inputs, parameters and ops.
        parted: the first row at which the programs are not the same; -1 if they are.
        parted_at: the same in words.
    """

    rank: int
    size: int
    origins: list[Origin]
    parted: int
    parted_at: str

    @property
    def diverged(self) -> Origin | None:
        """The first origin that is no input."""
        return next((one for one in self.origins if one.kind != "input"), None)

    @property
    def sentences(self) -> list[str]:
        """What differs, in words."""
        inputs = [one.called for one in self.origins if one.kind == "input"]
        found = []
        if self.parted >= 0:
            found.append(f"The ranks run different programs from {self.parted_at} on.")
        if (one := self.diverged) is not None:
            sides = " against ".join(named(side) if i == 0 else named(side).lower() for i, side in enumerate(one.groups))
            what = "The first op whose result differs" if one.kind == "op" else f"The {one.kind} that differs first"
            found.append(f"{what} is {one.called}{', though its inputs are equal' if one.kind == 'op' else ''}: {sides}.")
        if inputs:
            rest = "" if self.diverged is not None or self.parted >= 0 else " Nothing else differs but what is computed from them."
            found.append(f"Each rank has its own data: {', '.join(inputs[:4])}.{rest}")
        return found or ["All results are equal on all ranks."]


class Across(ReportSession):
    """The recording of this rank, with the places at which those of the ranks begin to differ.

    Attributes:
        origins: the rows that differ while what they were computed from is equal: inputs, parameters and ops.
        diverged: the first of them that is no input, or None.
        parted: the first row at which the programs are not the same; -1 if they are.
    """

    among: Among

    @property
    def origins(self) -> list[Origin]:
        return self.among.origins

    @property
    def diverged(self) -> Origin | None:
        return self.among.diverged

    @property
    def parted(self) -> int:
        return self.among.parted

    def report(self) -> Report:
        return TextReport("\n".join(self.among.sentences))


def compare(session: Session) -> None:
    """Compare the session's recording with those of the other ranks, and flag where they begin to differ; all of them call this.

    Recordings of the same program get the same name, so that a view can go from one to the other and stay where it is.
    """
    r = session.recording
    everywhere = _everywhere((r.name, _rows(r)))
    found, parted = origins(r, [rows for _, rows in everywhere])
    at = "" if parted < 0 else r.called(parted) if parted < r.count else "the end of this rank's recording"
    session.among = Among(dist.get_rank(), dist.get_world_size(), found, parted, at)
    session.flags["ranks"] = [
        Flag(one.row, "≠", f"{one.called} differs between ranks", "accent" if one.kind == "input" else "error") for one in found
    ]
    if parted < 0:
        r.name = everywhere[0][0]


def recorded(what: Any, names: Mapping[str, Any]) -> Across:
    """Compare the recordings of all ranks; all of them call this."""
    session = opened_on(Across, recording_of(what, names), "graph", names)
    compare(session)
    return session
