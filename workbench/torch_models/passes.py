"""Records of PyTorch's backward passes, made by hooks on the graph's nodes, that can be stepped through afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from weakref import ref

import numpy

from .. import protocol
from ..backward.fanout import Addend, FanOut
from ..backward.stepper import PassEnded, Stepper, said
from ..backward.telling import gain_text, gains, operand, place_text, size_text
from ..formulas import typeset
from ..graph.graph import Graph
from ..inspector import NOT_YET, bytes_text, summary
from ..recording.recording import KEEP
from . import arrays
from .loaded import is_tensor
from .recording import Listener, Mark, TorchRecording

RECORD = "PyTorch's engine ran this pass itself; this is its record. Going back and forth in it changes no .grad."


@dataclass(slots=True)
class _Gain:
    """The gradient that a step passed to one input."""

    target: int  # row
    gradient: Any
    total: Any  # the input's gradient so far, this one included
    addends: int


@dataclass(slots=True)
class _Ran:
    """One op's part of the pass: the node or nodes that PyTorch made for the op."""

    row: int
    place: int  # 1-based
    nodes: list[str]  # PyTorch's names of the nodes, in the order in which they ran
    upstream: list[Any]
    gains: list[_Gain] = field(default_factory=list)
    inner: Set[int] = frozenset()  # marks of the op's own nodes that got a gradient from its other nodes
    leaf: str = ""  # for a leaf: "stored in" or "added to"
    message: protocol.Step | None = None
    early: bool = False  # whether the message was written before all names were known


class TorchPass(Stepper):
    """The record of one backward pass, with steps in the order in which PyTorch's engine reached their ops."""

    is_record = True
    mode = "record"

    def __init__(self, recording: TorchRecording, graph: Graph, keep: int = KEEP) -> None:
        super().__init__(recording, graph, (), [], None, keep)
        self.taken: list[Any] = []
        self.lock = RLock()  # GPU nodes run in the engine's own threads
        self._open: dict[int, _Ran] = {}  # row -> its step
        # mark of a node -> for each of its results, the gradient so far and the number of its addends
        self._totals: dict[int, dict[int, tuple[Any, int]]] = {}

    # -- called by the hooks -------------------------------------------------------------------------------------------------

    def ran(self, mark: Mark, gradients: tuple, upstream: tuple) -> None:
        """A node has turned `upstream` into `gradients` of its inputs."""
        mine, hold = mark.row, self._hold
        with self.lock:
            step = self._open.get(mine)
            if step is None:
                step = self._open[mine] = self._new(mine, mark.name)
            else:
                step.nodes.append(mark.name)
            if mark.number not in step.inner:
                step.upstream += [g for g in map(hold, upstream) if g is not None]
            for target, gradient in zip(mark.targets or (), gradients, strict=False):
                if target is None or gradient is None:
                    continue
                row, number, result = target
                if row == mine:
                    step.inner = {*step.inner, number}
                    continue
                held = hold(gradient)
                totals = self._totals.get(number)
                if totals is None:
                    totals = self._totals[number] = {}
                before, addends = totals.get(result, (None, 0))
                # both are detached, so their sum has no graph
                total = held if addends == 0 else hold(before + held) if is_tensor(before) and is_tensor(held) else None
                totals[result] = total, addends + 1
                step.gains.append(_Gain(row, held, total, addends + 1))
            self._totals.pop(mark.number, None)

    def accumulated(self, mark: Mark, upstream: tuple, had: bool) -> None:
        """A leaf has received its gradient."""
        with self.lock:
            self._totals.pop(mark.number, None)
            step = self._new(mark.row, "AccumulateGrad")
            step.upstream = [g for g in map(self._hold, upstream) if g is not None]
            step.leaf = "added to" if had else "stored in"

    def _new(self, row: int, name: str) -> _Ran:
        step = _Ran(row, len(self.taken) + 1, [name], [])
        self.taken.append(step)
        self.plan.append(row)
        return step

    def _hold(self, gradient: Any) -> Any:
        """The gradient while the budget lasts, then its Summary; None for a GPU gradient, which would have to be copied for that.

        Holding a gradient keeps PyTorch from writing into it later.
        """
        if gradient is None:
            return None
        if gradient.requires_grad:  # create_graph: keep the values, not the graph of the derivative
            gradient = gradient.detach()
        key = id(gradient)
        if key not in self._held:
            size = arrays.bytes_of(gradient)
            if self.kept_bytes + size > self.keep:
                return _summed_up(gradient)
            self.kept_bytes += size
            self._held.add(key)
        return gradient

    def let_go(self) -> None:
        """Replace each gradient by its Summary, to free memory for newer passes."""
        with self.lock:
            known: dict[int, tuple[Any, Any]] = {}  # keeps each gradient alive, so that its id stays unique

            def told(gradient: Any) -> Any:
                if not is_tensor(gradient):
                    return gradient
                if id(gradient) not in known:
                    known[id(gradient)] = gradient, _summed_up(gradient)
                return known[id(gradient)][1]

            for step in self.taken:
                step.upstream = [g for g in map(told, step.upstream) if g is not None]
                for gain in step.gains:
                    gain.gradient, gain.total = told(gain.gradient), told(gain.total)
            self.keep = self.kept_bytes = 0
            self._held.clear()

    def end(self, error: BaseException | None = None) -> None:
        """The pass is over: complete, or stopped by `error`."""
        with self.lock:
            if error is not None:
                self.failure = "it was interrupted." if isinstance(error, KeyboardInterrupt) else said(error)
            self._open.clear()
            self._totals.clear()
            self.index = len(self.taken)

    # -- stepping: changes only the position in the record ----------------------------------------------------------------------

    @property
    def total(self) -> int:
        return len(self.taken)

    def _undo(self) -> None:
        self.index -= 1

    def _redo(self) -> None:
        self.index += 1

    def _run(self) -> None:
        raise PassEnded(RECORD)

    def close(self) -> None:
        self.closed = True

    # -- descriptions --------------------------------------------------------------------------------------------------------

    def gradient(self, row: int, compute: bool = True) -> tuple[Any, str]:
        """The gradient of a row at the current position in the record; or None and the reason."""
        late, found = False, None
        for step in self.taken[: self.index]:
            if step.row == row and any(map(is_tensor, step.upstream)):
                return _shown(step.upstream)
            late = late or step.row == row
            for gain in step.gains:
                if gain.target == row:
                    found, late = (gain.total, False) if is_tensor(gain.total) else (None, True)
        if found is not None:
            return _shown([found])
        if late:
            over = f"the gradients of this pass take more than {bytes_text(self.keep)}" if self.keep else "there is no room for this pass"
            return None, f"It was not kept: {over}. With a larger keep= more is held."
        if any(step.row == row or any(gain.target == row for gain in step.gains) for step in self.taken[self.index :]):
            return None, NOT_YET
        return None, ""

    def gradients_at(self, index: int, arrived: bool = False) -> list[tuple[str, Any]]:
        """The gradients that a breakpoint checks in the step before `index`: `(description, array)`, or a Summary if not kept."""
        step, mine = self.taken[index - 1], self._called(self.taken[index - 1].row)
        told = self.step(index)
        upstream = _shown(step.upstream)[0]
        found: list[tuple[str, Any]] = []
        if arrived or step.leaf or index == 1:
            found.append((f"the gradient of {mine}", upstream if upstream is not None or told is None else told.upstream))
        for gain in () if arrived else step.gains:
            for what, gradient in ((f"what {self.recording.op_name(step.row)} hands to {self._called(gain.target)}", gain.gradient),
                                   (f"the gradient of {self._called(gain.target)} so far", gain.total)):  # fmt: skip
                known, array = _told(gradient)
                if known is not None and (gradient is gain.gradient or gain.addends > 1):
                    found.append((what, known if array is None else array))
        return found

    def sizes(self, index: int) -> tuple[Any, list[tuple[int, Any, Any]]] | None:
        """Summaries of a step: the upstream gradient, and `(target, contribution, the target's gradient so far)` for each input."""
        step = self.step(index)
        if step is None:
            return None
        return step.upstream, [(c.target, c.gradient, c.total) for c in step.contributions]

    def arrived(self) -> dict[int, Any]:
        """Map rows to their gradients at the current position in the record, if kept."""
        found: dict[int, Any] = {}
        for step in self.taken[: self.index]:
            for row, gradients in ((step.row, step.upstream), *((gain.target, [gain.total]) for gain in step.gains)):
                array = _shown(gradients)[0]
                if array is not None:
                    found[row] = array
        return found

    def label(self) -> str:
        """The name or op of the tensor at which the pass began."""
        return self._called(self.plan[0]) if self.plan else "backward"

    def fan_out(self, row: int) -> FanOut:
        """The addends of a row's gradient, both those already reached and those to come."""
        addends = [Addend(-1, 0, "the start of the pass", 0, "arrived", _shown(self.taken[0].upstream)[0])] if row in self.plan[:1] else []
        total = addends[0].gradient if addends and self.index else None
        for step in self.taken:
            for gain in step.gains:
                if gain.target != row:
                    continue
                there = step.place <= self.index
                array = arrays.numpy_of(gain.gradient) if there and is_tensor(gain.gradient) else None
                state = "to come" if not there else "let go" if array is None else "arrived"
                addends.append(Addend(step.row, len(addends), self._called(step.row), step.place, state, array))
                if array is not None and (total is None or total.shape == array.shape):
                    total = array if total is None else total + array
        return FanOut(row, addends, total)

    def sentence(self) -> str:
        """Describe the position in the record; at both ends, also say that it is only a record."""
        if self.index == 0 and not self.failed:
            return f"At the start of the backward pass: {self.total} steps. {RECORD}"
        return super().sentence() + (f" {RECORD}" if self.done else "")

    def handed_on(self, place: int) -> tuple[Any, list[tuple[int, str, int, Any]]]:
        """The upstream gradient of a step, and `(slot, name, row, array)` for each input; None for gradients not kept."""
        taken = self.taken[place - 1]
        given = [] if taken.leaf else [(slot, label, gain.target, _told(gain.gradient)[1]) for gain, slot, label in self._placed(taken)]
        return _shown(taken.upstream)[0], given

    def _operands(self, row: int) -> list[Any]:
        op, slots = self.recording.ops[row], self.recording.inputs(row)
        operands: list[Any] = [None] * max([slot + 1 for _, slot in slots], default=0)
        operands += [None] * (0 if op.variadic else len(op.inputs) - len(operands))
        for source, slot in slots:
            operands[slot] = operand(self.recording, source)
        return operands

    def _placed(self, taken: Any) -> Iterator[tuple[_Gain, int, str]]:
        """Yield a step's gradients, each with the input's slot (-1 if the op does not name it) and name."""
        r = self.recording
        free, op = list(r.inputs(taken.row)), r.ops[taken.row]
        names = typeset.input_names(op, max([0 if op.variadic else len(op.inputs), *(slot + 1 for _, slot in free)]))
        for gain in taken.gains:
            slot = next((slot for source, slot in free if source == gain.target), -1)
            free = [(source, at) for source, at in free if at != slot]
            yield gain, slot, names[slot] if slot >= 0 else r.op_name(gain.target)

    def _describe(self, taken: Any) -> protocol.Step:
        r, row = self.recording, taken.row
        upstream = _shown(taken.upstream)[0]
        arrived = next((g for g in taken.upstream if isinstance(g, protocol.Summary)), None) if upstream is None else summary(upstream)
        told = ", not kept for want of room" if arrived is None else ""
        arrived = summary(_nothing()) if arrived is None else arrived
        site = self.graph.site(row)
        if taken.leaf:
            shown = operand(r, row)
            name = shown.name or r.called(row)
            rule = typeset.accumulation(shown, upstream)
            held = f"{name}.grad" if shown.name else "its .grad"
            sentence = f"accumulate: the gradient of {name} ({size_text(arrived)}{told}) is {taken.leaf} {held}."
            return protocol.Step(taken.place, row, "accumulate", rule, arrived, [], site, f"Step {taken.place} of {self.total}, {sentence}")
        op, attrs = r.ops[row], r.attrs[row]
        operands = self._operands(row)
        output = operand(r, row)
        contributions, said_of = [], []
        for gain, slot, label in self._placed(taken):
            gained, gradient = _told(gain.gradient)
            if gained is None:
                continue
            now, _ = (gained, None) if gain.total is gain.gradient else _told(gain.total)
            addends = 1 if now is None else gain.addends  # the sum was not kept
            now = gained if now is None else now
            if slot >= 0:
                rule = typeset.backward(op, attrs, operands, output, slot, upstream, gradient)
                axes = [] if upstream is None else typeset.broadcast_axes(op, upstream.shape, r.shape[gain.target])
            else:  # an input that the op does not name, such as the base of a view
                rule, axes = typeset.accumulation(operand(r, gain.target), gradient), []
            contributions.append(protocol.Contribution(gain.target, label, gained, now, addends, axes, rule))
            said_of.append(gain_text(r, gain.target, label, gained, now if addends > 1 else None))
        where = f" at {place_text(self.graph.sites[site])}" if site >= 0 else ""
        nodes = ", ".join(dict.fromkeys(taken.nodes))
        lost = len(taken.gains) - len(contributions)
        parts = [gains(said_of)] if said_of or not lost else []
        parts += [f"{lost} gradient{'s' * (lost != 1)} not kept for want of room"] if lost else []
        sentence = f"Step {taken.place} of {self.total}, {op.name}{where} ({nodes}): {'; '.join(parts)}."
        forward = typeset.forward(op, attrs, operands, output)
        return protocol.Step(taken.place, row, op.name, forward, arrived, contributions, site, sentence)


class PassRecorder:
    """Registers hooks on the nodes of a graph, and makes a TorchPass of every backward pass through them.

    `passed(record)` is called when a pass is over; `room()` returns how many bytes of gradients the next record may hold. `remove()`
    removes all hooks.
    """

    def __init__(self, recording: TorchRecording, graph: Graph, passed: Callable[[TorchPass], None], room: Callable[[], int]) -> None:
        self.recording, self.graph, self.passed, self.room = recording, graph, passed, room
        self.current: TorchPass | None = None
        self._announced = False  # whether a `during` block marks the end of the pass
        self._awaited = 0  # nodes with a hook of this recorder
        self._seen: set[int] = set()
        self._had: dict[int, bool] = {}
        self._lock = RLock()
        self._me: ref[Listener] = ref(self)  # weak, so that hooks keep nothing alive

    def hang(self, node: Any, mark: Mark, leaf: Any) -> None:
        """Register hooks on the node."""
        self._awaited += 1
        mark.told, hooks = self._me, self.recording.hooks
        if leaf is not None:
            hooks[~mark.number] = node.register_prehook(_before(ref(self), mark.number, ref(leaf)))
        hooks[mark.number] = node.register_hook(mark)

    def remove(self) -> None:
        """Remove all hooks."""
        self.finish()
        hooks = self.recording.hooks
        for number in list(hooks):
            if (hook := hooks.pop(number, None)) is not None:
                hook.remove()

    @contextmanager
    def during(self, retained: bool) -> Iterator[None]:
        """Record the backward pass that runs within the block."""
        if self._announced:  # a nested pass, as checkpointing starts one, is part of the outer pass
            yield
            return
        self.finish()
        self._announced = True
        try:
            yield
        except BaseException as error:
            self._over(retained, error)
            raise
        else:
            self._over(retained)
        finally:
            self._announced = False

    def finish(self) -> None:
        """End the current pass, if its end was not announced."""
        if self.current is not None:
            self._over(True)

    def _over(self, retained: bool, error: BaseException | None = None) -> None:
        with self._lock:
            record, self.current = self.current, None
            seen, self._seen = self._seen, set()
        if record is None:
            return
        if not retained:
            for number in seen:
                self.recording.free(number)
        self.recording.passes += 1
        for step in record.taken:
            if step.leaf:
                self.recording.gradient_of(step.row)
        record.end(error)
        self.recording.passed(record)
        self.passed(record)

    def _record(self, number: int) -> TorchPass:
        with self._lock:
            if number in self._seen and not self._announced:
                self._over(True)  # the node runs again, so a new pass has begun
            if self.current is None:
                self.current = TorchPass(self.recording, self.graph, self.room())
            self._seen.add(number)
            return self.current

    def ran(self, mark: Mark, gradients: tuple, upstream: tuple) -> None:
        """The hook of a node: it has turned `upstream` into `gradients` of its inputs."""
        record = self._record(mark.number)
        if mark.targets is None:
            record.accumulated(mark, upstream, self._had.pop(mark.number, False))
        else:
            record.ran(mark, gradients, upstream)
        if not self._announced and len(self._seen) == self._awaited:
            self._over(True)


def _before(recorder: ref[PassRecorder], number: int, leaf: ref) -> Callable[[tuple], None]:
    """The prehook of a leaf's node, which notes whether the leaf already has a `.grad` to add to."""

    def hook(upstream: tuple) -> None:
        here, tensor = recorder(), leaf()
        if here is not None:
            here._had[number] = tensor is not None and tensor.grad is not None

    return hook


def _shown(gradients: list) -> tuple[Any, str]:
    """The gradients of an op as one array: flattened and concatenated if it has several results."""
    found = [array for g in gradients if is_tensor(g) and (array := arrays.numpy_of(g)) is not None]
    if not found:
        return None, ""
    if len(found) == 1:
        return found[0], ""
    return numpy.concatenate([a.reshape(-1) for a in found]), ""


def _summed_up(gradient: Any) -> protocol.Summary | None:
    """The Summary of a gradient that is not held; None for a GPU gradient, which would have to be copied for that."""
    array = arrays.numpy_of(gradient) if gradient.device.type == "cpu" else None
    return None if array is None else summary(array)


def _told(gradient: Any) -> tuple[protocol.Summary | None, Any]:
    """A gradient's summary and its array, each None if not kept."""
    if isinstance(gradient, protocol.Summary):
        return gradient, None
    array = None if gradient is None else arrays.numpy_of(gradient)
    return (None, None) if array is None else (summary(array), array)


def _nothing() -> Any:
    return numpy.zeros(0, numpy.float32)
