"""The backward pass one step at a time: `.backward()`'s own generator, held instead of exhausted, and a record to go back in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy

from engine import inplace, tape
from engine.autograd import reverse
from engine.tensor import Tensor

from . import protocol, typeset
from .graph import Graph
from .inspector import bytes_text, number_text, summary
from .recording import KEEP, Recording
from .typeset import Operand


class PassEnded(RuntimeError):
    """The pass cannot go on; the text says why."""


@dataclass
class _Taken:
    """One step that ran: what came in and out, and `.grad` of the tensors that it changed, before and after."""

    node: Any
    upstream: Any
    gradients: tuple
    changed: list[tuple[ref, Any, Any]] = field(default_factory=list)  # tensor, .grad before, .grad after
    message: protocol.Step | None = None


class Stepper:
    """A backward pass that can be walked forth and back.

    Going back puts `.grad` of every leaf back to the very tensor that was there; going forth again puts it forward. At the end it is
    what `.backward()` leaves, bit for bit. Nothing is subtracted or computed twice: gradients are values and the record keeps them.
    """

    mode = "live"

    def __init__(self, recording: Recording, graph: Graph, roots: tuple, plan: list, steps: Iterator | None, keep: int = KEEP) -> None:
        self.recording, self.graph = recording, graph
        self.roots = roots
        self.keep, self.kept_bytes = keep, 0
        # the results of one op receive their gradients in nodes of their own, which are no steps for the reader
        self.nodes = [node for node in plan if node.op is None or not node.op.picks]
        self.plan = [recording.row_of(node) for node in self.nodes]
        self.index = 0
        self.taken: list[_Taken | None] = []  # None: no gradient reached that node
        self.failure = ""
        self.closed = False
        self._steps = steps
        self._place = {node: i for i, node in enumerate(self.nodes)}
        self._begun = steps is None
        self._grads: dict[int, Any] = {}  # row -> its gradient so far, rebuilt when a step is described
        self._watched: list[tuple[Any, ref]] = [(node, tensor) for node in self.nodes if (tensor := _holder(node)) is not None]
        self._by_node: dict[Any, ref] = dict(self._watched)

    @classmethod
    def of(cls, recording: Recording, graph: Graph, tensor: Tensor, gradient: Tensor | None = None, keep: int = KEEP) -> Stepper:
        """The pass that `tensor.backward(gradient)` would run. Raises what backward() would raise at its start."""

        def begin() -> Iterator:
            return reverse.start(tensor, gradient, retain_graph=True)

        steps = begin()
        plan = tape.plan([tensor.node])
        for node in plan:
            if node.op is not None and not isinstance(node.saved, tuple):
                raise RuntimeError(
                    "The graph was freed by an earlier backward(), so there is nothing left to step through. Compute the tensor again, or call "
                    "backward(retain_graph=True) the first time."
                )
        made = cls(recording, graph, (tensor.node,), plan, steps, keep)
        made._begin = begin
        return made

    _begin: Any = None

    # -- walking --------------------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        return len(self.nodes)

    @property
    def done(self) -> bool:
        return self.index == self.total

    def next(self) -> int:
        """One step forth; the new index. At the end nothing happens."""
        self._alive()
        if self.index < len(self.taken):
            self._redo()
            while self.index < len(self.taken) and self.taken[self.index - 1] is None:
                self._redo()
        elif self.index < self.total:
            self._run()
        return self.index

    def previous(self) -> int:
        """One step back; the new index. At the start nothing happens."""
        self._alive()
        if self.index:
            self._undo()
            while self.index and self.taken[self.index - 1] is None:
                self._undo()
        return self.index

    def to(self, index: int) -> int:
        """Forth or back until `index` steps are done."""
        index = max(0, min(index, self.total))
        while self.index < index:
            self.next()
        while self.index > index:
            self.previous()
        return self.index

    def to_node(self, row: int) -> int:
        """To just after the (next) step of a node."""
        places = [i + 1 for i, at in enumerate(self.plan) if at == row]
        if not places:
            raise PassEnded("The backward pass does not reach this node.")
        return self.to(next((i for i in places if i > self.index), places[0]))

    def finish(self) -> None:
        """Run to the end: `.grad` is then what `.backward()` leaves."""
        self.to(self.total)

    def close(self) -> None:
        """Let go. Unless the pass is finished, `.grad` is put back to what it was before the first step."""
        if not self.closed:
            if not self.done and self.mode == "live":
                while self.index:
                    self._undo()
            self.closed, self._steps = True, None

    def _alive(self) -> None:
        if self.closed:
            raise PassEnded("This backward pass was closed. Use wb.step(loss) to get a new one.")

    def _undo(self) -> None:
        self.index -= 1
        taken = self.taken[self.index]
        for tensor, before, _ in taken.changed if taken is not None else ():
            _put(tensor, before)

    def _redo(self) -> None:
        taken = self.taken[self.index]
        for tensor, _, after in taken.changed if taken is not None else ():
            _put(tensor, after)
        self.index += 1

    def _run(self) -> None:
        """Let the engine take its next step. What interrupts it leaves the step undone, and the pass can go on later."""
        if self._steps is None:
            self._revive()
        assert self._steps is not None
        grad_mode, tape.mode.grad = tape.mode.grad, False
        before = {node: None if (t := tensor()) is None else t._grad for node, tensor in self._watched}
        try:
            for node, upstream, gradients in self._steps:
                if self._took(node, upstream, gradients, before):
                    return
            self._ended()
        except BaseException as error:
            self._steps = None  # an exception ends a generator
            for node, tensor in self._watched:
                _put(tensor, before[node])
            if isinstance(error, Exception):
                self.failure = str(error)
            raise
        finally:
            tape.mode.grad = grad_mode

    def _took(self, node: Any, upstream: Any, gradients: tuple, before: dict) -> bool:
        """Write down a step of the engine; False for one that is none to the reader."""
        place = self._place.get(node)
        if place is None:
            return False
        taken = _Taken(node, upstream, tuple(gradients))
        # hooks may change other tensors' .grad as well: compare them all only where there are hooks
        for other, tensor in self._watched if node.hooks is not None else ((node, self._by_node.get(node)),):
            t = tensor() if tensor is not None else None
            if t is not None and tensor is not None and t._grad is not before.get(other):
                taken.changed.append((tensor, before.get(other), t._grad))
        self.taken += [None] * (place - len(self.taken))
        self.taken.append(taken)
        self.index = len(self.taken)
        self._note_gradients(taken)
        return True

    def _ended(self) -> None:
        self.taken += [None] * (self.total - len(self.taken))
        self.index = self.total

    def _revive(self) -> None:
        """After an interrupt: a new generator, run to where the old one was. Rules are deterministic, so it is the same pass."""
        if self._begin is None:
            raise PassEnded(self.failure or "This pass is a record; it can be looked at, but not run on.")
        here = self.index
        while self.index:
            self._undo()
        steps = self._begin()
        count = sum(1 for taken in self.taken if taken is not None)
        try:
            while count:
                node, _, _ = next(steps)
                count -= node in self._place
        finally:
            for taken in self.taken:  # the record's own tensors, not the repeated ones
                for tensor, before, _ in taken.changed if taken is not None else ():
                    _put(tensor, before)
            while self.index < here:
                self._redo()
        self._steps = steps

    # -- telling --------------------------------------------------------------------------------------------------------------

    def gradient(self, row: int) -> Any:
        """The gradient of a row as far as the pass stands now: an array, or None."""
        total = None
        if any(self.recording.row_of(root) == row for root in self.roots):
            first = next((taken for taken in self.taken[: self.index] if taken is not None), None)
            total = None if first is None else first.upstream
        for taken in self.taken[: self.index]:
            if taken is None or taken.node.op is None:
                continue
            for source, g in zip(taken.node.inputs, taken.gradients, strict=False):
                if g is not None and source is not None and self.recording.row_of(source) == row:
                    total = g if total is None or getattr(total, "shape", None) != g.shape else total + g
        return total

    def _note_gradients(self, taken: _Taken) -> None:
        """Describe the step while its arrays are there, then keep the arrays only within the budget."""
        taken.message = self._describe(taken)
        size = sum(getattr(g, "nbytes", 0) for g in taken.gradients if g is not None)
        self.kept_bytes += size
        if self.kept_bytes > self.keep:
            taken.gradients = tuple(None for _ in taken.gradients)
            self.kept_bytes -= size

    def step(self, index: int) -> protocol.Step | None:
        """The message of the step that led to `index`."""
        taken = self.taken[index - 1] if 0 < index <= len(self.taken) else None
        return None if taken is None else taken.message

    def steps(self, already: set[int]) -> list[protocol.Step]:
        """The steps taken so far that are not among `already`."""
        return [m for i, taken in enumerate(self.taken) if taken is not None and (m := taken.message) is not None and i + 1 not in already]

    def message(self) -> protocol.Stepper:
        return protocol.Stepper(self.recording.name, self.mode, self.plan, self.index, self.sentence())  # type: ignore[arg-type]

    def sentence(self) -> str:
        """Where the pass stands."""
        if self.failure and self.index == len(self.taken):
            return f"The pass stopped after step {self.index} of {self.total}: {self.failure}"
        if self.index == 0:
            return f"At the start of the backward pass. {self.total} steps."
        step = self.step(self.index)
        return step.sentence if step is not None else f"Step {self.index} of {self.total}: no gradient arrives here."

    def _describe(self, taken: _Taken) -> protocol.Step:
        r, node, place = self.recording, taken.node, len(self.taken)
        row = self.plan[place - 1]
        upstream = _one(taken.upstream)
        arrived = summary(upstream)
        site = self.graph.site(row) if row >= 0 else -1
        if node.op is None:
            tensor = node.tensor()
            leaf = self.operand(row, node)
            rules = typeset.accumulation(leaf, upstream)
            after = None if tensor is None else tensor._grad
            added = bool(taken.changed) and taken.changed[0][1] is not None
            name = leaf.name or f"leaf #{row}"
            end = "is gone, so its gradient is dropped" if after is None else ("adds to" if added else "is stored in") + f" {name}.grad"
            sentence = f"Step {place} of {self.total}, accumulate: the gradient of {name} ({_size(arrived)}) {end}."
            return protocol.Step(place, row, "accumulate", rules, arrived, [], site, sentence)
        operands = [None if source is None else self.operand(r.row_of(source), source) for source in node.inputs]
        operands = self._with_constants(row, node, operands)
        output = self.operand(row, node)
        attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__")}
        names = typeset.input_names(node.op, len(node.inputs))
        forward = typeset.forward(node.op, attrs, operands, output)
        contributions, told = [], []
        for i, (source, g) in enumerate(zip(node.inputs, taken.gradients, strict=False)):
            if source is None or g is None:
                continue
            target = r.row_of(source)
            total, addends = self._total(source, g)
            unbroadcast = typeset.unbroadcast_axes(getattr(upstream, "shape", ()), source.shape or ()) if _broadcasts(node.op) else []
            rule = typeset.backward(node.op, attrs, operands, output, i, upstream, g)
            gained, now = summary(g), summary(total)
            contributions.append(protocol.Contribution(target, names[i], gained, now, addends, unbroadcast, rule))
            shown = operands[i]
            name = (shown.name if shown is not None else "") or f"{names[i]} (#{target})"
            told.append(f"gradient of {name} gains {_size(gained)}" + (f", now {_size(now)}" if addends > 1 else ""))
        where = f" at {_where(self.graph.sites[site])}" if site >= 0 else ""
        sentence = f"Step {place} of {self.total}, {node.op.name}{where}: {'; '.join(told) or 'no input wants a gradient'}."
        return protocol.Step(place, row, node.op.name, forward, arrived, contributions, site, sentence)

    def _total(self, source: Any, g: Any) -> tuple[Any, int]:
        """The gradient of a node so far, this contribution included, and how many it is the sum of; summed as the executor does."""
        held = self._grads.get(id(source))
        if held is None or getattr(held[0], "shape", None) != getattr(g, "shape", None):
            root = next((1 for node in self.roots if node is source), 0)
            self._grads[id(source)] = (g, 1 + root)
        else:
            self._grads[id(source)] = (held[0] + g, held[1] + 1)
        return self._grads[id(source)]

    def operand(self, row: int, node: Any = None) -> Operand:
        """A row as a part of a formula."""
        return operand(self.recording, row, node)

    def _with_constants(self, row: int, node: Any, operands: list) -> list:
        """Inputs that want no gradient have no node; the recording knows them, or the tape saved them."""
        recorded = {slot: source for source, slot in self.recording.inputs(row)} if row >= 0 else {}
        for i, known in enumerate(operands):
            if known is None and i in recorded:
                operands[i] = operand(self.recording, recorded[i])
        optional = node.op.inputs if not node.op.variadic else ()
        for i, name in enumerate(optional):
            if i < len(operands) and operands[i] is None and name not in getattr(node.op, "optional", {}):
                operands[i] = Operand("", (), None, ("unknown", i))
        return operands


def operand(recording: Recording, row: int, node: Any = None) -> Operand:
    """What a formula needs to know of a row. A value that was overwritten since is not shown as if it were the one that was used."""
    if row < 0:
        return Operand("", tuple(node.shape or ()) if node is not None else (), None, id(node))
    if recording.kind[row] == "constant":
        value = recording.kept.get(row)
        return Operand("", (), value, row, number=isinstance(value, (int, float, complex, numpy.number)))
    value = None if recording.overwritten(row) else recording.value(row)
    return Operand(recording.names.get(row, ""), recording.shape[row], value, row)


def _holder(node: Any) -> ref | None:
    """The tensor whose `.grad` the pass sets at this node."""
    if node.op is None:
        return node.tensor
    return node.hooks.retain if node.hooks is not None else None


def _put(tensor: ref, grad: Any) -> None:
    t = tensor()
    if t is not None:
        t._grad = grad


def _one(grad: Any) -> Any:
    """One array for what arrived at an op with several results."""
    if not isinstance(grad, list):
        return grad
    there = [g for g in grad if g is not None]
    return there[0] if len(there) == 1 else numpy.concatenate([numpy.asarray(g).reshape(-1) for g in there])


def _broadcasts(op: Any) -> bool:
    return getattr(op, "types", "") == "promote" or op.name in ("where", "expand", "broadcast_to")


def _size(s: protocol.Summary) -> str:
    if s.values is not None and s.size == 1:
        return number_text(s.values[0])
    return f"norm {number_text(s.norm)}" if s.norm is not None else "NaN or Inf"


def _where(site: protocol.Site) -> str:
    return f"{site.cell or site.file} line {site.line}"


__all__ = ["PassEnded", "Stepper", "bytes_text", "inplace", "operand"]
