"""The difference between two recordings: one merged graph in which each node is the same, changed, added or removed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import numpy

from .. import inspector, protocol
from ..inspector.numbers import norm, wide
from ..recording.recording import Recording, Scope, recent

PRECISE = 1 << 24  # pairs of rows up to which sequences are matched exactly; larger ones are matched by order of occurrence
CLOSE = 1e-6  # relative difference above which two values count as different

Status = Literal["same", "changed", "added", "removed"]
GLYPHS: dict[Status, str] = {"changed": "≠", "added": "+", "removed": "−"}
TONES: dict[Status, Literal["accent", "warm", "error"]] = {"changed": "accent", "added": "accent", "removed": "warm"}


@dataclass(frozen=True)
class Change:
    """The status of one node; `before` and `after` are its rows in the two recordings, -1 if it is missing."""

    status: Status
    before: int
    after: int
    words: str


class Difference(Recording):
    """Two recordings merged into one: the rows of the later one, with the rows that only the earlier one has at their positions."""

    def __init__(self, before: Recording, after: Recording) -> None:
        super().__init__(f"{before.title or 'before'} → {after.title or 'after'}", keep=0)
        recent.forget(self)  # not a recording of a program
        self.before, self.after = before, after
        self.changes: list[Change] = []
        self.distance: list[float] = []  # relative difference of the values; NaN if one of them is gone
        self.modules = [*before.modules, *after.modules]
        ids: dict[tuple, int] = {}
        self._places = {id(r): places(r, ids) for r in (before, after)}
        self._scopes: dict[int, int] = {}  # place -> scope
        self._merge()

    def _merge(self) -> None:
        old, new = self.before, self.after
        rows_of_old: dict[int, int] = {}
        rows_of_new: dict[int, int] = {}
        pairs = list(align(old, new, self._places[id(old)], self._places[id(new)]))
        partner = {a: b for a, b in pairs if a >= 0 and b >= 0}
        for a, b in pairs:
            source, at, rows = (new, b, rows_of_new) if b >= 0 else (old, a, rows_of_old)
            sources = self._sources(source, at, rows)
            row = self.append(
                source.ops[at], source.kind[at], source.shape[at], source.dtype[at], source.bytes[at], source.grad[at],
                scope=self._scope(source, source.scope[at]), code=source.code[at], lasti=source.lasti[at], saved=source.saved[at],
                note=source.note[at], attrs=source.attrs[at], tensor=source.ref[at], sources=sources,
            )  # fmt: skip
            rows[at] = row
            if a >= 0:
                rows_of_old[a] = row
            if (value := source.value(at)) is not None:
                self.kept[row] = value
            if at in source.versions:
                self.versions[row] = source.versions[at]
            if at in source.names:
                self.names[row] = source.names[at]
            if at in source.cells:
                self.cells[row] = source.cells[at]
            self.changes.append(self._change(a, b, partner))
            self.distance.append(_distance(old.value(a), new.value(b)) if a >= 0 and b >= 0 else math.nan)
        self.root = rows_of_new.get(new.root, -1)

    @staticmethod
    def _sources(source: Recording, at: int, rows: dict[int, int]) -> list[int]:
        inputs = source.inputs(at)
        found = [-1] * max((slot + 1 for _, slot in inputs), default=0)
        for row, slot in inputs:
            found[slot] = rows.get(row, -1)
        return found

    def _scope(self, source: Recording, scope: int) -> int:
        """The scope of the merged recording at the same place, created on first use."""
        if scope < 0:
            return -1
        place = self._places[id(source)][scope]
        if place not in self._scopes:
            s = source.scopes[scope]
            self.scopes.append(Scope(self._scope(source, s.parent), s.kind, s.name, s.label, s.subject, s.code, s.lasti))
            self._scopes[place] = len(self.scopes) - 1
        return self._scopes[place]

    def _change(self, a: int, b: int, partner: dict[int, int]) -> Change:
        old, new = self.before, self.after
        if b < 0:
            return Change("removed", a, b, f"only before: {_called(old, a)}")
        if a < 0:
            return Change("added", a, b, f"only after: {_called(new, b)}")
        words = []
        if old.op_name(a) != new.op_name(b):
            words.append(f"{old.op_name(a)} became {new.op_name(b)}")
        if old.shape[a] != new.shape[b]:
            words.append(f"shape {inspector.shape_text(old.shape[a])} became {inspector.shape_text(new.shape[b])}")
        if str(old.dtype[a]) != str(new.dtype[b]):
            words.append(f"dtype {old.dtype[a]} became {new.dtype[b]}")
        if old.kind[a] == new.kind[b] == "constant" and repr(old.value(a)) != repr(new.value(b)):
            words.append(f"{old.value(a)!r} became {new.value(b)!r}")
        words += _attributes(old.attrs[a], new.attrs[b])
        if old.grad[a] != new.grad[b]:
            words.append("requires grad now" if new.grad[b] else "requires no grad any more")
        if [(partner.get(row), slot) for row, slot in old.inputs(a)] != [(row, slot) for row, slot in new.inputs(b)]:
            words.append("has other inputs")
        distance = _distance(old.value(a), new.value(b))
        if math.isinf(distance) and old.shape[a] == new.shape[b]:
            words.append("NaN or Inf are at other positions")
        elif CLOSE < distance < math.inf:
            words.append(f"values differ by {inspector.number_text(distance)} of their size")
        return Change("changed" if words else "same", a, b, "; ".join(words))

    def flags(self) -> list[protocol.Flag]:
        """A flag for each node that is not "same"."""
        return [
            protocol.Flag(row, GLYPHS[change.status], change.words, TONES[change.status])
            for row, change in enumerate(self.changes)
            if change.status != "same"
        ]

    def report(self) -> str:
        """Return the changes as text, in program order."""
        counts: dict[str, int] = defaultdict(int)
        for change in self.changes:
            counts[change.status] += 1
        lines = [f"{self.title}: " + ", ".join(f"{counts[status]} {status}" for status in ("same", "changed", "added", "removed"))]
        for row, change in enumerate(self.changes):
            if change.status != "same":
                lines.append(f"  {GLYPHS[change.status]} {self.called(row)}: {change.words}")
        return "\n".join(lines)


def places(recording: Recording, ids: dict[tuple, int]) -> list[int]:
    """For each scope, an id shared across recordings by the k-th call of the same module class or scope name within the same parent.

    Modules are identified by class, because a module's name in a list changes when another is inserted before it.
    """
    found: list[int] = []
    calls: dict[tuple, int] = defaultdict(int)
    for scope in recording.scopes:
        what = scope.label if scope.kind == "module" else scope.name
        call = (found[scope.parent] if scope.parent >= 0 else -1, scope.kind, what)
        found.append(ids.setdefault((*call, calls[call]), len(ids)))
        calls[call] += 1
    return found


def align(old: Recording, new: Recording, places_a: list[int], places_b: list[int]) -> Iterator[tuple[int, int]]:
    """Pairs of corresponding rows, ordered so that every row comes after its inputs; -1 for a row without a counterpart.

    Rows match if they have the same op (or kind and name) in the same modules and scopes. Of the rest, rows in the same place are
    paired as changes.
    """
    a, b = _keys(old, places_a), _keys(new, places_b)
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    yield from ((i, i) for i in range(head))
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    for i1, i2, j1, j2 in _gaps(middle_a, middle_b):
        if middle_a[i1:i2] == middle_b[j1:j2]:
            yield from zip(range(head + i1, head + i2), range(head + j1, head + j2), strict=True)
            continue
        yield from _changed(a, b, range(head + i1, head + i2), range(head + j1, head + j2))
    yield from zip(range(len(a) - tail, len(a)), range(len(b) - tail, len(b)), strict=True)


def _gaps(a: Sequence[Any], b: Sequence[Any]) -> Iterator[tuple[int, int, int, int]]:
    if len(a) * len(b) <= PRECISE:
        yield from ((i1, i2, j1, j2) for _, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes())
        return
    # match the k-th occurrence with the k-th occurrence, as long as the order is kept
    places: dict[Any, list[int]] = defaultdict(list)
    for j, key in enumerate(b):
        places[key].append(j)
    begin_a = begin_b = 0
    seen: dict[Any, int] = defaultdict(int)
    for i, key in enumerate(a):
        k = seen[key]
        seen[key] += 1
        if k < len(places[key]) and places[key][k] >= begin_b:
            j = places[key][k]
            if i > begin_a or j > begin_b:
                yield begin_a, i, begin_b, j
            yield i, i + 1, j, j + 1
            begin_a, begin_b = i + 1, j + 1
    if begin_a < len(a) or begin_b < len(b):
        yield begin_a, len(a), begin_b, len(b)


def _changed(a: list[tuple], b: list[tuple], rows_a: range, rows_b: range) -> Iterator[tuple[int, int]]:
    """Pair the rows of a range without matches: rows in the same place are changes of each other, the rest is removed or added."""
    waiting: dict[Any, list[int]] = defaultdict(list)
    for j in rows_b:
        waiting[_place(b[j])].append(j)
    partner = {}
    last = -1
    for i in rows_a:
        candidates = waiting[_place(a[i])]
        if candidates and candidates[0] > last:
            last = partner[i] = candidates.pop(0)
    at = rows_b.start
    for i in rows_a:
        if i not in partner:
            yield i, -1
            continue
        yield from ((-1, j) for j in range(at, partner[i]))
        yield i, partner[i]
        at = partner[i] + 1
    yield from ((-1, j) for j in range(at, rows_b.stop))


def _keys(recording: Recording, place: list[int]) -> list[tuple]:
    """For each row, the key by which rows match: kind, op or name, scope and parent scope."""
    keys = []
    for row in range(recording.count):
        kind, scope = recording.kind[row], recording.scope[row]
        # constants match whatever their value, and parameters whatever their name
        what = recording.op_name(row) if kind == "op" else recording.names.get(row, "") if kind == "input" else ""
        parent = recording.scopes[scope].parent if scope >= 0 else -1
        keys.append((kind, what, place[scope] if scope >= 0 else -1, place[parent] if parent >= 0 else -1))
    return keys


def _place(key: tuple) -> tuple:
    """The kind and parent scope of a row, without its own module: another module in the same place is a change."""
    kind, _, _, around = key
    return kind, around


def _called(recording: Recording, row: int) -> str:
    name = recording.names.get(row, "")
    made = recording.op_name(row) or recording.kind[row]
    return f"{made} {name}".strip() + f" ({inspector.shape_text(recording.shape[row])})"


def _attributes(old: dict, new: dict) -> list[str]:
    words = []
    for name in sorted({*old, *new}):
        if name.startswith("__"):
            continue
        before, after = old.get(name), new.get(name)
        if repr(before) != repr(after):
            words.append(f"{name} {before!r} became {after!r}")
    return words


def _distance(a: Any, b: Any) -> float:
    """The norm of the difference divided by the larger norm, over the finite elements; NaN if one of the values is gone.

    Infinite if the shapes differ, or if NaN or Inf are at different positions.
    """
    if not hasattr(a, "dtype") or not hasattr(b, "dtype"):
        return math.nan
    if a.shape != b.shape:
        return math.inf
    if not a.size:
        return math.nan
    x, y = wide(a).reshape(-1), wide(b).reshape(-1)
    fine = numpy.isfinite(x) & numpy.isfinite(y)
    if not numpy.array_equal(x[~fine], y[~fine], equal_nan=True):
        return math.inf
    x, y = x[fine], y[fine]
    size, gap = max(norm(x), norm(y)), norm(x - y)
    return 0.0 if gap == 0 else gap / size if size else math.inf
