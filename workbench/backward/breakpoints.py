"""Breakpoints of the backward pass: where it stops, and on what condition. They outlive the cell that set them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakMethod

from .. import protocol
from ..graph.graph import Graph
from ..inspector import number_text
from ..recording.recording import Recording
from .conditions import BadCondition, Condition, Health, fetched, health_of, measure

if TYPE_CHECKING:
    from .stepper import Stepper

Where = Literal["node", "op", "name", "module", "any"]
BATCH = 32  # steps that a GPU may run ahead before its measurements are fetched

_numbers = count(1)


@dataclass(frozen=True)
class Key:
    """Identity of a node across runs of its cell: the user's name for it or its op and line, and an index among equal ones."""

    op: str
    name: str
    place: tuple  # cell or file, and line; () if there is a name
    nth: int


@dataclass
class Breakpoint:
    """The result of `wb.break_at`: stops backward passes at a node, an op, a name or a module, or anywhere.

    Attributes:
        on: whether it is active; set it to False to switch it off.
        when: the condition as text; "" for none.
        place: where it stops, in words.
    """

    where: Where
    what: str  # "mul", "layers.*.weight"; for a node, its description; "" for any
    condition: Condition | None
    key: Key | None = None
    on: bool = True
    id: int = 0

    @property
    def when(self) -> str:
        """The condition as text; "" for none."""
        return "" if self.condition is None else self.condition.text

    @property
    def place(self) -> str:
        """Where it stops, in words."""
        return {"any": "", "op": f"every {self.what}", "module": f"module {self.what}"}.get(self.where, self.what)

    def __str__(self) -> str:
        return " when ".join(part for part in (self.place, self.when) if part)

    def __repr__(self) -> str:
        parts = ("Breakpoint", self.place and f"at {self.place}", self.when and f"when {self.when}", "" if self.on else "(off)")
        return " ".join(part for part in parts if part)

    @classmethod
    def of(cls, when: str = "", *, op: str = "", name: str = "", module: str = "") -> Breakpoint:
        """Create a breakpoint at `op`, at a `name` or `module` glob, or anywhere; `when` is a condition such as "norm > 1e3"."""
        given = [(where, what.strip()) for where, what in (("op", op), ("name", name), ("module", module)) if what.strip()]
        if len(given) > 1:
            raise BadCondition(f"A breakpoint is at an op, a name or a module; this one has {' and '.join(w for w, _ in given)}.")
        if not given and not when.strip():
            raise BadCondition('A breakpoint needs a place or a condition: op="mul", name="layers.*.weight", module="encoder", "nan > 0".')
        where, what = given[0] if given else ("any", "")
        return cls(where, what, Condition(when) if when.strip() else None)  # type: ignore[arg-type]


class Breakpoints:
    """All breakpoints of a kernel, in the order in which they were set."""

    def __init__(self) -> None:
        self.all: list[Breakpoint] = []
        self._listeners: list[WeakMethod] = []

    def tell(self, listener: Callable[[], None]) -> None:
        """Call `listener`, a bound method, after each change, as long as its object lives."""
        weak = WeakMethod(listener)
        if weak not in self._listeners:
            self._listeners.append(weak)

    def add(self, one: Breakpoint) -> Breakpoint:
        """Add a breakpoint. An equal one that already exists is switched on and returned instead."""
        for known in self.all:
            if (known.where, known.what, known.when, known.key) == (one.where, one.what, one.when, one.key):
                known.on = True
                break
        else:
            known = one
            known.id = next(_numbers)
            self.all.append(known)
        self._changed()
        return known

    def toggle(self, recording: Recording, graph: Graph, row: int) -> Breakpoint | None:
        """Set a breakpoint at a node, or remove the one that is there. Return the new one, or None."""
        here = [one for one in self.all if one.where == "node" and one.condition is None and row in rows_of(one, recording, graph)]
        if here:
            self.all = [one for one in self.all if one not in here]
            self._changed()
            return None
        return self.add(self.at_node(recording, graph, row))

    @staticmethod
    def at_node(recording: Recording, graph: Graph, row: int, when: str = "") -> Breakpoint:
        """Create a breakpoint at one node of a graph. Raises Refused for a node that no backward pass can reach."""
        if not 0 <= row < recording.count:
            raise protocol.Refused(f"There is no node {row} in this graph; it has {recording.count}.")
        if not recording.grad[row]:
            raise protocol.Refused("This node does not require grad, so no gradient ever arrives: a breakpoint here would never stop.")
        what = recording.called(row)
        return Breakpoint("node", what, Condition(when) if when.strip() else None, key_of(recording, graph, row))

    def remove(self, number: int) -> None:
        """Remove a breakpoint."""
        self.all.remove(self.find(number))
        self._changed()

    def switch(self, number: int, on: bool) -> None:
        """Enable or disable a breakpoint."""
        self.find(number).on = on
        self._changed()

    def clear(self) -> None:
        """Remove all breakpoints."""
        self.all = []
        self._changed()

    def find(self, number: int) -> Breakpoint:
        for one in self.all:
            if one.id == number:
                return one
        raise protocol.Refused("This breakpoint is not there any more.")

    @property
    def active(self) -> list[Breakpoint]:
        return [one for one in self.all if one.on]

    def _changed(self) -> None:
        self._listeners = [weak for weak in self._listeners if weak() is not None]
        for weak in list(self._listeners):
            listener = weak()
            if listener is not None:
                listener()


kept = Breakpoints()  # the breakpoints of this kernel


# -- finding their rows in a graph --------------------------------------------------------------------------------------------


def key_of(recording: Recording, graph: Graph, row: int) -> Key:
    """Return the key that identifies the node in another run."""
    mine = _signature(recording, graph, row)
    nth = sum(_signature(recording, graph, other) == mine for other in range(row) if recording.ops[other] is recording.ops[row])
    return Key(*mine, nth)


def _signature(recording: Recording, graph: Graph, row: int) -> tuple[str, str, tuple]:
    op, name = recording.op_name(row), recording.names.get(row, "")
    if name:
        return op, name, ()
    at = graph.site(row)
    if at < 0:
        return op, "", ()
    site = graph.sites[at]
    return op, "", (site.cell_id or site.file, site.line)


def rows_of(one: Breakpoint, recording: Recording, graph: Graph) -> set[int]:
    """The rows of a recording at which a breakpoint is set; all rows if it is set anywhere."""
    rows = range(recording.count)
    if one.where == "any":
        return set(rows)
    if one.where == "op":
        return {row for row in rows if (recording.op_name(row) or ("accumulate" if recording.grad[row] else "")) == one.what}
    if one.where == "name":
        return {row for row, name in recording.names.items() if recording.kind[row] != "constant" and _matches(name, one.what)}
    if one.where == "module":
        inside: list[bool] = []
        for number, scope in enumerate(recording.scopes):  # outer scopes have smaller numbers
            names = (scope.name, graph.scope_names.get(number, scope.name), scope.label)
            mine = scope.kind in ("module", "scope") and any(_matches(name, one.what) for name in names)
            inside.append(mine or scope.parent >= 0 and inside[scope.parent])
        return {row for row in rows if recording.scope[row] >= 0 and inside[recording.scope[row]]}
    key = one.key
    assert key is not None
    seen = 0
    for row in rows:
        if recording.op_name(row) == key.op and _signature(recording, graph, row) == (key.op, key.name, key.place):
            if seen == key.nth:
                return {row}
            seen += 1
    return set()


def _matches(name: str, glob: str) -> bool:
    """Whether a glob matches. `layers.*.weight` also matches `model.layers.0.weight`: the model's own name need not be known."""
    return name != "" and (fnmatchcase(name, glob) or fnmatchcase(name, f"*.{glob}"))


# -- stopping -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stop:
    """Where a pass stops (after `index` steps), and why."""

    index: int
    sentence: str


class _Candidate:
    """A conditional breakpoint at one step, with the gradients it applies to and what was measured of them."""

    def __init__(self, one: Breakpoint, condition: Condition, whose: list[tuple[str, Any]]) -> None:
        self.one, self.condition, self.whose = one, condition, whose
        self.names = condition.names
        self.measured = [measure(gradient, self.names) for _, gradient in whose if not isinstance(gradient, protocol.Summary)]

    def sentence(self, what: str, health: Health) -> str:
        numbers = ", ".join(f"{name} {number_text(health[name])}" for name in sorted(self.names))
        place = "" if self.one.where == "any" else f" at {self.one.place}"
        return f"Stopped because {self.condition.text}{place}: {what} has {numbers}."


class Lookout:
    """Checks the steps of one pass as they are taken, and decides where it stops. On a GPU it may decide up to 32 steps later."""

    def __init__(self, stepper: Stepper, breakpoints: Iterable[Breakpoint]) -> None:
        self.stepper = stepper
        self._anywhere = [one for one in breakpoints if one.where == "any"]
        self._at: dict[int, list[Breakpoint]] = {}
        for one in breakpoints:
            if one.where != "any":
                for row in rows_of(one, stepper.recording, stepper.graph):
                    self._at.setdefault(row, []).append(one)
        self._waiting: list[tuple[int, list[_Candidate]]] = []

    def look(self, index: int) -> Stop | None:
        """Check the step that led to `index`."""
        taken = self.stepper.taken[index - 1] if index else None
        if taken is None:
            return None
        row = self.stepper.plan[index - 1]
        due = self._at.get(row, []) + self._anywhere
        for one in due:
            if one.condition is None:
                return self.flush() or Stop(index, f"Stopped at a breakpoint: {one}.")
        if not due:
            return None
        found = [
            _Candidate(one, one.condition, self.stepper.gradients_at(index, arrived=one.where in ("node", "name")))
            for one in due
            if one.condition is not None
        ]
        self._waiting.append((index, found))
        on_device = any(_waits(value) for one in found for values in one.measured for value in values)
        return None if on_device and len(self._waiting) < BATCH else self.flush()

    def flush(self) -> Stop | None:
        """Decide about all pending steps; return the first one to stop at."""
        waiting, self._waiting = self._waiting, []
        asked = [(c.names, values) for _, candidates in waiting for c in candidates for values in c.measured]
        healths = iter(fetched(asked))
        found: Stop | None = None
        for index, candidates in waiting:
            for candidate in candidates:
                for what, gradient in candidate.whose:
                    health = health_of(gradient) if isinstance(gradient, protocol.Summary) else next(healths)
                    if found is None and candidate.condition.holds(health):
                        found = Stop(index, candidate.sentence(what, health))
        return found


def _waits(value: Any) -> bool:
    return not isinstance(value, (int, float)) and hasattr(value, "get")


def named(stops: str | Breakpoint | Sequence[str | Breakpoint]) -> list[Breakpoint]:
    """Convert the argument of `run_until` to breakpoints: a condition, a Breakpoint, or several."""
    several = [stops] if isinstance(stops, (str, Breakpoint)) else list(stops)
    return [one if isinstance(one, Breakpoint) else Breakpoint.of(one) for one in several]
