"""Where the time goes: when each op and backward step ran, totals by op, module and line, and the cost of recording itself."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import numpy

import engine
from engine.base import observe
from engine.core import devices

from ..recording.recorder import Recorder
from ..recording.recording import Recording, recent
from ..recording.source import Sources
from .graph import Graph

FORWARD, BACKWARD = 0, 1
ROUNDING = 1e-9  # seconds by which sums of a GPU's times may be off
LEAF = -2  # the line key of leaf accumulation, which no line of the user's causes
SHOWN = 12  # rows of each table in a terminal
NOT_TIMED = "No op was timed: times are taken under %%watch and in wb.record(), not from the tape afterwards."
_NO_LINE = {-1: "ops whose line is not known", LEAF: "adding up gradients in .grad"}


class Times:
    """Every op and backward step with a known time, as columns in the order in which they began; in seconds.

    `begun` counts from the beginning of the recording. `own` is `took` without nested entries: a backward pass that is itself recorded runs
    ops inside its steps. On a GPU, both are device times rather than launch times.
    """

    seconds: float
    row: numpy.ndarray  # int64; -1 if the op ran before the recording
    lane: numpy.ndarray  # FORWARD or BACKWARD
    begun: numpy.ndarray
    took: numpy.ndarray
    own: numpy.ndarray
    op: list[str]

    def __init__(self, recording: Recording) -> None:
        r = self.recording = recording
        settle(r)
        count, steps = r.count, len(r.steps)
        rows, step_rows = numpy.arange(count), numpy.array(r.steps[:steps], numpy.int64)
        begun = numpy.concatenate([r.begun[:count], r.step_begun[:steps]])
        took = numpy.concatenate([r.took[:count], r.step_took[:steps]])
        lane = numpy.concatenate([numpy.zeros(count, numpy.uint8), numpy.ones(steps, numpy.uint8)])
        known = numpy.flatnonzero(~numpy.isnan(begun + took))
        order = known[numpy.lexsort((-took[known], begun[known]))]  # of two that began together, the longer one contains the other
        self.row, self.lane, self.took = numpy.concatenate([rows, step_rows])[order], lane[order], took[order]
        self.begun = begun[order] - r.began
        self.own = _own(self.begun, self.took)
        self.seconds = (perf_counter() if math.isnan(r.ended) else r.ended) - r.began  # that the recorded code has run so far
        ops = [*r.ops[:count], *r.step_ops[:steps]]
        self.op = [ops[at].name if ops[at] is not None else "accumulate" for at in order]

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Total:
    """The time of one op, one line or one module, in seconds."""

    key: Any  # the op's name; the index of the line in the graph's `sites`, negative if unknown; the module's path
    label: str  # the line's text; the module's class
    calls: int  # forward calls of ops, or calls of the module
    forward: float
    backward: float
    node: int  # the row that took longest, to jump to; -1 for none
    inside: float = 0.0  # for a module, seconds, forward and backward, spent in modules inside it

    @property
    def seconds(self) -> float:
        return self.forward + self.backward


@dataclass(frozen=True)
class Cost:
    """The overhead of recording, in seconds: estimated from what it adds to one op and one step on this machine."""

    per_op: float
    per_step: float
    ops: int
    steps: int
    wall: float  # from the beginning of the recording to its end, or to now

    @property
    def seconds(self) -> float:
        return self.per_op * self.ops + self.per_step * self.steps

    @property
    def sentence(self) -> str:
        parts = [f"about {seconds_text(self.per_op)} to each of {self.ops:,} ops"]
        if self.steps:
            parts.append(f"{seconds_text(self.per_step)} to each of {self.steps:,} backward steps")
        whole = f"{seconds_text(self.seconds)} of {seconds_text(self.wall)}"
        return f"Recording added {' and '.join(parts)}: {whole}. The times of ops and lines are without it."


def _own(begun: numpy.ndarray, took: numpy.ndarray) -> numpy.ndarray:
    """Each entry's time without that of the entries nested in it."""
    own, ends = took.copy(), begun + took
    if not len(own) or (begun[1:] + ROUNDING >= ends[:-1]).all():
        return own
    around: list[int] = []
    for at in range(len(own)):
        while around and ends[around[-1]] <= begun[at] + ROUNDING:
            around.pop()
        if around and ends[at] <= ends[around[-1]] + ROUNDING:
            own[around[-1]] -= took[at]
        around.append(at)
    return numpy.maximum(own, 0.0)


def settle(recording: Recording) -> None:
    """Wait for a GPU and replace launch times by the times of the device's work.

    A GPU's first mark is assumed to have been reached when it was set, as the GPU was idle then. Each is measured from the one before it:
    CUDA tells times in float32, which over minutes is not exact to microseconds.
    """
    r = recording
    marked = [(r.begun, r.took, r.marks, at) for at in list(r.marks)]
    marked += [(r.step_begun, r.step_took, r.step_marks, at) for at in list(r.step_marks)]
    marked.sort(key=lambda one: one[0][one[3]])
    last = {marks[at][1].device: marks[at] for *_, marks, at in marked}
    for begin, end in last.values():
        devices.gpu.seconds_between(begin, end)  # waits for all of them
    for begun, took, marks, at in marked:
        begin, end = marks.pop(at)
        before, reached = r.reached.get(begin.device, (begin, begun[at]))
        begun[at] = reached + devices.gpu.seconds_between(before, begin)
        took[at] = devices.gpu.seconds_between(begin, end)
        r.reached[begin.device] = begin, begun[at]


# -- totals ----------------------------------------------------------------------------------------------------------------


def by_op(times: Times) -> list[Total]:
    """The time of each op, longest first."""
    return _totals(times, times.op, lambda name: "")


def by_line(times: Times, graph: Graph) -> list[Total]:
    """The time of each line of the user's code, longest first: the ops that it called, and their backward steps."""
    kind = times.recording.kind
    keys = [-1 if row < 0 else graph.site(row) if kind[row] == "op" else LEAF for row in times.row.tolist()]
    return _totals(times, keys, lambda at: graph.sites[at].text if at >= 0 else _NO_LINE[at])


def by_module(times: Times, graph: Graph) -> list[Total]:
    """The time of each module with the modules inside it, longest first; calls of one module are added up. Empty without modules."""
    r = times.recording
    home = [_module_of(r, scope) for scope in range(len(r.scopes))]
    where = [home[scope] if scope >= 0 else -1 for scope in r.scope[: r.count]]
    own = {total.key: total for total in _totals(times, (where[row] if row >= 0 else -1 for row in times.row.tolist()), str)}
    calls = [scope for scope in range(len(home)) if home[scope] == scope]
    sums = {call: _Sum(own.get(call)) for call in calls}
    for call in reversed(calls):  # inner calls have larger numbers than outer ones
        if (outer := _around(r, home, call)) >= 0:
            sums[outer].add(sums[call], inside=True)
    modules: dict[Any, tuple[str, str, _Sum]] = {}
    for call in calls:
        s = r.scopes[call]
        name = graph.scope_names.get(call, s.name)
        key = s.subject or name
        outer = _around(r, home, call)
        while outer >= 0 and (r.scopes[outer].subject or r.scopes[outer].name) != key:
            outer = _around(r, home, outer)
        total = modules.setdefault(key, (name, s.label, _Sum(None)))[2]
        total.calls += 1
        if outer < 0:  # in a recursive module, the outer call includes the inner one
            total.add(sums[call])
    found = [Total(name, label, s.calls, s.forward, s.backward, s.node, s.inside) for name, label, s in modules.values()]
    if modules and -1 in own:
        rest = own[-1]
        found.append(Total("", "outside of modules", rest.calls, rest.forward, rest.backward, rest.node))
    return sorted(found, key=lambda t: -t.seconds)


class _Sum:
    """The time of one or several calls of a module."""

    def __init__(self, own: Total | None) -> None:
        self.calls, self.inside = 0, 0.0
        self.forward, self.backward, self.node = (own.forward, own.backward, own.node) if own is not None else (0.0, 0.0, -1)
        self.most = self.forward + self.backward  # the time of the part that `node` belongs to

    def add(self, other: _Sum, inside: bool = False) -> None:
        self.forward += other.forward
        self.backward += other.backward
        self.inside += other.forward + other.backward if inside else other.inside
        if other.most > self.most or self.node < 0:
            self.most, self.node = other.most, other.node


def _around(r: Recording, home: list[int], call: int) -> int:
    """The module call in which this call was made; -1 for none."""
    parent = r.scopes[call].parent
    return home[parent] if parent >= 0 else -1


def _module_of(r: Recording, scope: int) -> int:
    """The innermost module call that this scope is or is in; -1 for none."""
    while scope >= 0 and r.scopes[scope].kind != "module":
        scope = r.scopes[scope].parent
    return scope


def _totals(times: Times, keys: Iterable, label: Any) -> list[Total]:
    number: dict[Any, int] = {}
    at = numpy.array([number.setdefault(key, len(number)) for key in keys], numpy.int64)
    n, back = len(number), times.lane == BACKWARD
    forward = numpy.bincount(at, numpy.where(back, 0.0, times.own), n)
    backward = numpy.bincount(at, numpy.where(back, times.own, 0.0), n)
    calls = numpy.bincount(at, ~back, n)
    longest = numpy.full(n, -1)
    order = numpy.argsort(times.own, kind="stable")
    longest[at[order]] = times.row[order]  # the last one assigned, the longest, stays
    found = [
        Total(key, label(key), int(calls[i]), float(forward[i]), float(backward[i]), int(longest[i])) for key, i in number.items()
    ]  # fmt: skip
    return sorted(found, key=lambda t: -t.seconds)


# -- what recording costs ----------------------------------------------------------------------------------------------------


def cost(recording: Recording) -> Cost | None:
    """Estimate the cost of recording; None if there is none, or if calibration is impossible because this thread is being recorded."""
    r = recording
    if not r.slowed:
        return None
    ops = int(numpy.count_nonzero(~numpy.isnan(numpy.array(r.took[: r.count]))))
    if not ops and not len(r.steps) or observe.current is not None and calibrated.cache_info().currsize == 0:
        return None
    per_op, per_step = calibrated()
    wall = (perf_counter() if math.isnan(r.ended) else r.ended) - r.began
    return Cost(per_op, per_step, ops, len(r.steps), wall)


@cache
def calibrated() -> tuple[float, float]:
    """Seconds that a recorder takes for one op, including its result's death, and for one backward step; measured once."""
    found = [_trial() for _ in range(9)]  # other processes disturb some of them
    return min(op for op, _ in found), min(step for _, step in found)


def _trial(n: int = 100) -> tuple[float, float]:
    """Feed a chain of small products to a separate recorder without running the engine, so that no other recording is affected."""
    x, factor = (engine.ones(4, 4).requires_grad_() for _ in range(2))
    results = [x]
    for _ in range(n):
        results.append(results[-1] * factor)
    op = results[-1].node.op
    calls = [(op, (before, factor), {}, after) for before, after in zip(results, results[1:], strict=False)]
    nodes = [result.node for result in results[1:]]
    recorder = Recorder("calibration")
    recent.forget(recorder.recording)  # not a recording of the user's

    def tell(*told: Any) -> None:  # replaces the engine's call
        recorder.begins()
        recorder.op(*told)

    def tell_step(node: Any) -> None:
        recorder.step_begins(node)
        recorder.backward(node, grad, (grad, grad))

    def run() -> float:
        start = perf_counter()
        for call in calls:
            tell(*call)
        return perf_counter() - start

    recorder.user_code(run.__code__)  # as in a cell: the line is found at once
    grad = results[-1].array
    seconds = run()
    start = perf_counter()
    for node in reversed(nodes):
        tell_step(node)
    steps = perf_counter() - start
    calls.clear()
    start = perf_counter()
    results.clear()
    return (seconds + perf_counter() - start) / n, steps / n


def seconds_text(seconds: float) -> str:
    """ "2.8 µs", "22 ms", "1.3 s"."""
    unit, name = next(((unit, name) for unit, name in ((1.0, "s"), (1e-3, "ms")) if seconds >= unit), (1e-6, "µs"))
    return f"{seconds / unit:.{0 if seconds >= 10 * unit else 1}f} {name}"


def waited(recording: Recording) -> str:
    """A sentence on how often and how long the host waited for a GPU, and the line that waited longest; "" if it never did."""
    waits = [one for one in recording.waits.found.values() if one.what != "copy"]
    if not waits:
        return ""
    longest = max(waits, key=lambda one: sum(one.seconds))
    site = Sources().site(longest.code, longest.lasti)
    at = "" if site is None else f", the longest at line {site.line} of {site.cell or site.file}: {site.text.strip()}"
    times, seconds = (sum(sum(column) for column in columns) for columns in ([w.counts for w in waits], [w.seconds for w in waits]))
    return f"The host waited for a GPU {times:,} time{'s' if times > 1 else ''}, {seconds_text(seconds)}{at}"


# -- as text -----------------------------------------------------------------------------------------------------------------


def report(recording: Recording, graph: Graph) -> str:
    """Where the time went, as text for a terminal."""
    times = Times(recording)
    if not len(times):
        return NOT_TIMED
    back = times.lane == BACKWARD
    forward, backward = (float(times.own[mask].sum()) for mask in (~back, back))
    lines = [f"{seconds_text(times.seconds)}: {seconds_text(forward)} in {int((~back).sum()):,} ops"]
    if backward:
        lines[0] += f", {seconds_text(backward)} in {int(back.sum()):,} backward steps"
    lines[0] += f", {seconds_text(max(0.0, times.seconds - forward - backward))} between them, recording included"
    found = cost(recording)
    lines += [found.sentence] if found is not None else []
    lines += [told] if (told := waited(recording)) else []
    everything = forward + backward

    def table(title: str, totals: list[Total], name: Any) -> None:
        if not totals:
            return
        lines.extend(["", f"{title:<44} {'calls':>7} {'forward':>9} {'backward':>9} {'share':>6}"])
        for total in totals[:SHOWN]:
            shown = name(total)
            shown = shown if len(shown) <= 44 else shown[:41] + "..."
            share = f"{100 * total.seconds / everything:.0f} %" if everything else ""
            times_text = f"{_or_dash(total.forward):>9} {_or_dash(total.backward):>9}"
            lines.append(f"{shown:<44} {total.calls or '–':>7} {times_text} {share:>6}")
        if len(totals) > SHOWN:
            lines.append(f"and {len(totals) - SHOWN} more")

    def line_name(total: Total) -> str:
        if total.key < 0:
            return total.label
        site = graph.sites[total.key]
        return f"{site.cell or site.file}:{site.line}  {total.label}"

    table("line", by_line(times, graph), line_name)
    table("op", by_op(times), lambda total: total.key)
    table(
        "module, with what is inside", by_module(times, graph), lambda total: f"{total.key} ({total.label})" if total.key else total.label
    )
    return "\n".join(lines)


def _or_dash(seconds: float) -> str:
    return seconds_text(seconds) if seconds else "–"
