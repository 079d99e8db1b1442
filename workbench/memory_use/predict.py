"""Predict the peak memory under no_grad, checkpoints, half precision or a smaller batch, from the lifetimes of recorded blocks.

Nothing is run: the recorded events say when each block was allocated and freed, which nodes saved it, and when the program dropped it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from .. import protocol
from ..recording.recording import Recording
from .living import holders
from .log import ACTIVATION, GRADIENT, INPUT, OPTIMIZER, SAVED, TEMPORARY, Ints, Log

MOST = 12
CALLS = 100  # per module at most, to bound the time
WORTH = 0.01  # of the peak: smaller gains are not listed


@dataclass
class Lives:
    """Blocks of `bytes` alive from event `begin` to before event `end`; `extra` has further pieces (first, end, bytes)."""

    begin: Ints
    end: Ints
    bytes: Ints
    extra: list[tuple[int, int, int]]

    def peak(self, count: int) -> int:
        """The maximum of the bytes alive at once."""
        change = numpy.zeros(count + 2, numpy.int64)
        there = self.begin < self.end
        numpy.add.at(change, self.begin[there], self.bytes[there])
        numpy.add.at(change, numpy.minimum(self.end[there], count + 1), -self.bytes[there])
        for first, last, size in self.extra:
            change[first] += size
            change[min(last, count + 1)] -= size
        return int(numpy.cumsum(change)[:count].max(initial=0))


class Program:
    """A recorded program, with predictions of its peak memory under changes."""

    def __init__(self, log: Log, graph: Any) -> None:
        self.log, self.graph, self.r = log, graph, log.recording
        self.peak = log.peak
        self.dropped = self._dropped()
        self.scope = numpy.array(self.r.scope[: log.rows], numpy.int64)

    def _dropped(self) -> Ints:
        """The event at which the program dropped its own references to each block; the tape may keep it alive longer."""
        log, r = self.log, self.r
        found = numpy.where(log.category == SAVED, log.born, log.died)  # blocks internal to a node were never the program's
        alive = holders(r)
        kept = {log.place_of(block) for key, block in list(r.blocks.items()) if alive.get(key)}
        for number, at in list(r.dropped_at.items()):
            place = int(numpy.searchsorted(log.numbers, number))
            if place < len(found) and log.numbers[place] == number and place not in kept:
                found[place] = min(at // 3, log.died[place])
        return found

    # -- no_grad ---------------------------------------------------------------------------------------------------------------

    def no_grad(self, inside: numpy.ndarray) -> int:
        """The peak if the rows selected by `inside` ran under no_grad: they save nothing, and no gradient flows through them."""
        log, r = self.log, self.r
        grad = self._grad_without(inside)
        lives = self._lives()
        keeps = self._still_saved(grad)
        saved_to = numpy.zeros(len(log.numbers), numpy.int64)
        numpy.maximum.at(saved_to, log.use_block[keeps], log.use_to[keeps])
        used = numpy.isin(log.category, (ACTIVATION, TEMPORARY, INPUT, SAVED)) & (log.saved_from < log.saved_to)
        lives.end[used] = numpy.minimum(lives.end[used], numpy.maximum(self.dropped[used], saved_to[used]))
        reached = self._reached(grad)
        gone = (log.category == GRADIENT) & ~numpy.where((log.row >= 0) & (log.row < log.rows), reached[numpy.clip(log.row, 0, None)], True)
        lives.end[gone] = lives.begin[gone]
        if not reached[[i for i in range(log.rows) if r.kind[i] == "parameter"]].any():  # nothing to update
            lives.end[log.category == OPTIMIZER] = lives.begin[log.category == OPTIMIZER]
        return lives.peak(log.count)

    def _grad_without(self, inside: numpy.ndarray) -> numpy.ndarray:
        """Which rows still require grad if the rows `inside` run under no_grad."""
        r = self.r
        grad = numpy.array(r.grad[: self.log.rows], bool)
        begin = 0
        source = r.source
        for row in range(self.log.rows):
            end = r.edge_end[row]
            if grad[row] and r.kind[row] == "op":
                grad[row] = not inside[row] and any(grad[source[e]] for e in range(begin, end))
            begin = end
        return grad

    def _still_saved(self, grad: numpy.ndarray) -> numpy.ndarray:
        """Which uses remain: those of ops that still require grad, if the rule of an input that requires grad keeps the array."""
        log = self.log
        needed: dict[int, set[int] | None] = {}
        keeps = numpy.zeros(len(log.use_row), bool)
        for use, (row, place) in enumerate(zip(log.use_row.tolist(), log.use_place.tolist(), strict=True)):
            if row < 0:
                keeps[use] = True
                continue
            if row not in needed:
                needed[row] = self._places(row, grad) if grad[row] else set()
            places = needed[row]
            keeps[use] = places is None or place in places
        return keeps

    def _places(self, row: int, grad: numpy.ndarray) -> set[int] | None:
        """Indices in `saved` that the rules of inputs with grad keep; None means all, for ops that do not declare it."""
        op = self.r.ops[row]
        if self.r.foreign is not None or getattr(op, "variadic", False) or not getattr(op, "rules", ()):
            return None
        found: set[int] = set()
        for source, slot in self.r.inputs(row):
            rule = op.rules[slot] if slot < len(op.rules) else None
            if rule is not None and grad[source]:
                found |= set(rule.keeps)
        return found

    def _reached(self, grad: numpy.ndarray) -> numpy.ndarray:
        """Rows that a gradient still reaches. A leaf needs a consumer that requires grad."""
        r = self.r
        reached = grad.copy()
        leaf = numpy.array([kind != "op" for kind in r.kind[: self.log.rows]], bool)
        reached[leaf] = False
        source, target = self._edges()
        users = grad[target] & leaf[source] & grad[source]
        reached[source[users]] = True
        return reached

    # -- checkpoint ------------------------------------------------------------------------------------------------------------

    def checkpoint(self, scopes: list[int]) -> tuple[int, int, float]:
        """(peak, recomputed ops, seconds that those took) if each of these module calls were checkpointed: it keeps only its inputs, frees
        the arrays saved inside with the forward pass, and recomputes them at the first backward step of the call.
        """
        lives, ops, seconds = self._lives(), 0, 0.0
        for scope in scopes:
            more, longer = self._checkpointed(scope, lives)
            ops, seconds = ops + more, seconds + longer
        return lives.peak(self.log.count), ops, seconds

    def _checkpointed(self, scope: int, lives: Lives) -> tuple[int, float]:
        log, r = self.log, self.r
        inside = self.inside(scope)
        rows = numpy.flatnonzero(inside)
        if not len(rows):
            return 0, 0.0
        uses = (log.use_row >= 0) & inside[numpy.clip(log.use_row, 0, None)]
        again = self._first_step(inside)
        if again is None:
            return 0, 0.0
        blocks = numpy.unique(log.use_block[uses])
        born_inside = self._of_rows(inside)[blocks] & (log.category[blocks] != GRADIENT)
        elsewhere = numpy.zeros(len(log.numbers), numpy.int64)
        numpy.maximum.at(elsewhere, log.use_block[~uses], log.use_to[~uses])
        own = blocks[born_inside]
        freed = lives.end[own].copy()
        self._keep_inputs(inside, again, lives)
        lives.end[own] = numpy.minimum(freed, numpy.maximum(self.dropped[own], elsewhere[own]))
        # the recomputation needs the peak of the call's own forward pass
        last = int(log.born[own].max(initial=0))
        first = int(log.born[own].min(initial=log.count))
        forward = (log.category != GRADIENT) & (log.where[log.born] >= 0)
        inner = numpy.flatnonzero(forward & self._of_rows(inside))
        worst = _highest(log, inner, first, last) if len(own) else 0
        for at, end in zip(own.tolist(), freed.tolist(), strict=True):
            if end > again and lives.end[at] <= again:
                lives.extra.append((again, end, int(log.bytes[at])))
        there = sum(int(log.bytes[at]) for at, end in zip(own.tolist(), freed.tolist(), strict=True) if end > again)
        if worst > there:
            lives.extra.append((again, again + 1, worst - there))
        count = int(sum(r.kind[row] == "op" for row in rows))
        took = numpy.frombuffer(r.took.tobytes(), numpy.float64)[: log.rows]
        return count, float(numpy.nansum(took[rows])) if len(took) else 0.0

    def _keep_inputs(self, inside: numpy.ndarray, again: int, lives: Lives) -> None:
        """Extend the lives of the call's inputs until it is recomputed."""
        log = self.log
        sources, targets = self._edges()
        given = numpy.unique(sources[inside[targets] & ~inside[sources]])
        blocks = numpy.flatnonzero(numpy.isin(log.row, given) & numpy.isin(log.category, (ACTIVATION, TEMPORARY, INPUT)))
        lives.end[blocks] = numpy.maximum(lives.end[blocks], again + 1)

    def _edges(self) -> tuple[Ints, Ints]:
        count = self.r.edge_end[self.log.rows - 1] if self.log.rows else 0
        return numpy.array(self.r.source[:count], numpy.int64), numpy.array(self.r.target[:count], numpy.int64)

    def _first_step(self, inside: numpy.ndarray) -> int | None:
        """The first event in a backward step of these rows; None if there is none."""
        log = self.log
        rows = log.rows_of_events()
        steps = numpy.flatnonzero((log.where < 0) & (rows >= 0) & inside[numpy.clip(rows, 0, log.rows - 1)])
        ops = [at for at in steps.tolist() if self.r.kind[int(rows[at])] == "op"]
        return ops[0] if ops else None

    def _of_rows(self, inside: numpy.ndarray) -> numpy.ndarray:
        """Which blocks belong to these rows."""
        row = self.log.row
        return (row >= 0) & (row < self.log.rows) & inside[numpy.clip(row, 0, self.log.rows - 1)]

    # -- half and batch --------------------------------------------------------------------------------------------------------

    def half(self) -> int:
        """The peak if every float array had two bytes per element."""
        return self._scaled(self._element_sizes())

    def batch(self, share: float) -> int:
        """The peak if the batch were `share` of its size: blocks that depend on the inputs scale, parameters and their state do not."""
        return self._scaled(self._batch_shares(share))

    def batch_size(self) -> int:
        """The length of the first axis of the first input with two or more axes, else of the first input with one; 0 if there is none."""
        r = self.r
        inputs = [r.shape[row] for row in range(self.log.rows) if r.kind[row] == "input" and r.shape[row]]
        wide = [shape for shape in inputs if len(shape) > 1]
        return int((wide or inputs or [(0,)])[0][0])

    def _scaled(self, shares: numpy.ndarray) -> int:
        lives = self._lives()
        lives.bytes = numpy.rint(lives.bytes * shares).astype(numpy.int64)
        return lives.peak(self.log.count)

    def _element_sizes(self) -> numpy.ndarray:
        log, r = self.log, self.r
        shares = numpy.ones(len(log.numbers))
        for at, (row, size) in enumerate(zip(log.row.tolist(), log.bytes.tolist(), strict=True)):
            dtype = numpy.dtype("float32") if not 0 <= row < log.rows else r.dtype[row]
            if isinstance(dtype, numpy.dtype) and dtype.kind == "f" and dtype.itemsize > 2 and not self._narrow(at, row, size, dtype):
                shares[at] = 2 / dtype.itemsize
        return shares

    def _narrow(self, at: int, row: int, size: int, dtype: Any) -> bool:
        """Whether the block has one byte per element: a mask that the op's node keeps besides its result."""
        elements = math.prod(self.r.shape[row]) if 0 <= row < self.log.rows else 0
        return elements > 1 and size == elements and dtype.itemsize > 1

    def _batch_shares(self, share: float) -> numpy.ndarray:
        log, r, batch = self.log, self.r, self.batch_size()
        depends = numpy.zeros(log.rows, bool)
        begin = 0
        for row in range(log.rows):
            end = r.edge_end[row]
            shape = r.shape[row]
            if r.kind[row] == "input":
                depends[row] = bool(shape) and shape[0] == batch
            elif r.kind[row] == "op":
                depends[row] = any(depends[r.source[e]] for e in range(begin, end))
            begin = end
        shares = numpy.ones(len(log.numbers))
        for at, row in enumerate(log.row.tolist()):
            if 0 <= row < log.rows and depends[row] and any(n and n % batch == 0 for n in r.shape[row]):
                shares[at] = share
        return shares

    # -- shared ----------------------------------------------------------------------------------------------------------------

    def _lives(self) -> Lives:
        log = self.log
        return Lives(log.born.copy(), log.died.copy(), log.bytes.copy(), [])

    def inside(self, scope: int) -> numpy.ndarray:
        """Which rows ran inside the scope, nested scopes included."""
        r = self.r
        within = numpy.zeros(len(r.scopes) + 1, bool)  # the last is scope -1, the top
        for number in range(scope, len(r.scopes)):
            within[number] = number == scope or within[r.scopes[number].parent]
        return within[self.scope]


def _highest(log: Log, blocks: Ints, first: int, last: int) -> int:
    """The maximum of the bytes of these blocks alive at once in events first..last."""
    change = numpy.zeros(last - first + 2, numpy.int64)
    for at in blocks.tolist():
        if first <= log.born[at] <= last:
            change[log.born[at] - first] += log.bytes[at]
            change[min(int(log.died[at]), last + 1) - first] -= log.bytes[at]
    return int(numpy.cumsum(change).max(initial=0))


def predictions(recording: Recording, re: int | None, graph: Any, node: int = -1) -> protocol.Predictions:
    """The predicted peak under each change, the largest gain first."""
    log = Log(recording)
    program = Program(log, graph)
    found = list(_options(program, node)) if log.count and log.rows else []
    worth = [option for option in found if option.peak < log.peak * (1 - WORTH) or option.what in ("no_grad", "half")]
    worth.sort(key=lambda option: option.peak)
    return protocol.Predictions(re, recording.name, log.peak, worth[:MOST])


def _options(program: Program, node: int) -> Any:
    r, log = program.r, program.log
    everything = numpy.ones(log.rows, bool)
    if any(r.grad[row] for row in range(log.rows)):
        note = "The forward pass alone: nothing is saved, and there is no backward pass."
        yield protocol.Prediction("no_grad", "no_grad everywhere", -1, program.no_grad(everything), 0, 0.0, note)
    yield protocol.Prediction(
        "half", "half precision", -1, program.half(), 0, 0.0,
        "Every float array has two bytes an element: model.half() and inputs in float16. Sums lose digits; keep the loss in float32.",
    )  # fmt: skip
    batch = program.batch_size()
    if batch > 1:
        note = f"A batch of {batch // 2} instead of {batch}. Accumulate the gradients of two of them to keep the same step."
        yield protocol.Prediction("batch", f"batch of {batch // 2}", -1, program.batch((batch // 2) / batch), 0, 0.0, note)
    calls = _module_calls(program)
    for name, scopes in {**calls, **_siblings(calls)}.items():
        peak, ops, seconds = program.checkpoint(scopes)
        first = int(numpy.flatnonzero(program.inside(scopes[0]))[0])
        times = f", each of {len(scopes)} calls on its own" if len(scopes) > 1 else ""
        note = f"Only the inputs of {name} are kept{times}; the rest is computed again when the backward pass comes there."
        yield protocol.Prediction("checkpoint", f"checkpoint {name}", first, peak, ops, seconds, note)
    if 0 <= node < log.rows and r.scope[node] >= 0:
        scope = r.scope[node]
        while scope >= 0 and r.scopes[scope].kind != "module":
            scope = r.scopes[scope].parent
        if scope >= 0:
            name = _named(program, scope)
            inside = numpy.any([program.inside(s) for s in calls.get(name, [scope])], axis=0)
            note = f"{name} under no_grad: it saves nothing, and its parameters and all before it get no gradient through it."
            yield protocol.Prediction("no_grad", f"no_grad in {name}", node, program.no_grad(inside), 0, 0.0, note)


def _named(program: Program, scope: int) -> str:
    names = program.graph.scope_names
    return names.get(scope, program.r.scopes[scope].name) or program.r.scopes[scope].label


def _module_calls(program: Program) -> dict[str, list[int]]:
    """The calls of the largest modules, by name. Calls that ran a single op are left out, because they gain nothing."""
    r = program.r
    size = numpy.bincount(program.scope[program.scope >= 0], minlength=len(r.scopes))
    for scope in range(len(r.scopes) - 1, -1, -1):  # inner scopes have larger numbers than those around them
        if r.scopes[scope].parent >= 0:
            size[r.scopes[scope].parent] += size[scope]
    found: dict[str, list[int]] = {}
    for scope, entered in enumerate(r.scopes):
        if entered.kind == "module" and size[scope] > 1:
            found.setdefault(_named(program, scope), []).append(scope)
    few = [name for name, scopes in found.items() if len(scopes) <= CALLS]
    return {name: found[name] for name in sorted(few, key=lambda name: -sum(int(size[s]) for s in found[name]))[: 2 * MOST]}


def _siblings(calls: dict[str, list[int]]) -> dict[str, list[int]]:
    """Group numbered modules, such as the blocks of a transformer, under one name: "every blocks.*"."""
    found: dict[str, list[int]] = {}
    for name, scopes in calls.items():
        around, _, last = name.rpartition(".")
        if last.isdigit():
            found.setdefault(f"every {around}.*" if around else "every numbered module", []).extend(scopes)
    return {name: sorted(scopes) for name, scopes in found.items() if CALLS >= len(scopes) > 1}
