"""Step through a backward pass: drives the generator of `.backward()` one step at a time, with a record for going back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from engine.autograd import reverse
from engine.base import observe
from engine.core import tape, versions
from engine.core.tensor import Tensor

from .. import protocol
from ..graph.graph import Graph
from ..inspector import NOT_YET, bytes_text
from ..recording.recording import KEEP, Recording
from . import telling
from .breakpoints import Breakpoint, Lookout, Stop, kept, named
from .granularity import By, Places
from .replay import Checkpoints, Replay

AT_ONCE = 16  # steps sent in full with one move: a view requests the norms of the others


class PassEnded(protocol.Refused, RuntimeError):
    """The pass cannot continue; the text says why."""


@dataclass
class Taken:
    """One step that ran: its incoming and outgoing gradients, and `.grad` of the tensors that it changed, before and after."""

    node: Any
    place: int  # 1-based, in the plan
    upstream: Any
    gradients: tuple
    totals: list  # for each input: its gradient so far, and the number of contributions summed in it
    changed: list[tuple[ref, Any, Any]] = field(default_factory=list)  # tensor, .grad before, .grad after
    message: protocol.Step | None = None  # made on request, or before the arrays are dropped
    early: bool = False  # the message was made while the code still ran, when not all names were known


class Stepper:
    """A backward pass that can be stepped forward and back.

    Going back restores `.grad` of every leaf to the very tensor that was there; going forward sets it again. At the end it is bit for bit
    what `.backward()` leaves. Nothing is subtracted or computed twice: the record keeps the gradients.

    Attributes:
        index: the number of steps done.
        total: the number of steps in the pass.
        done: whether the pass is at its end.
        failed: whether an error ended the pass at the current step.
        stopped: a sentence about the breakpoint that stopped the pass at the current step; "" for none.
    """

    mode = "live"
    is_record = False  # whether stepping changes no .grad

    def __init__(self, recording: Recording, graph: Graph, roots: tuple, plan: list, begin: Callable | None, keep: int = KEEP) -> None:
        self.recording, self.graph = recording, graph
        self.roots = roots
        self.keep, self.kept_bytes = keep, 0
        # an op with several results has extra nodes for their gradients, which are not steps for the reader
        self.nodes = [node for node in plan if node.op is None or not node.op.picks]
        self.plan = [recording.row_of(node) for node in self.nodes]
        self.index = 0
        self.taken: list[Taken | None] = []  # None: no gradient reached that node
        self.failure = ""
        self.closed = False
        self.forks: Any = None  # whatif.fork.Forks of this pass, created on first use
        self.stop: Stop | None = None  # the breakpoint that stopped the pass last
        self._places: Places | None = None
        self._begin = begin
        self._steps: Iterator | None = None if begin is None else begin()
        self._place = {node: i for i, node in enumerate(self.nodes)}
        self._grads: dict[Any, tuple] = {}  # node -> (its gradient so far, number of contributions), until its own step
        self._held: set[int] = set()  # ids of the arrays that the record keeps
        self._watched: dict[Any, ref] = {node: held for node in self.nodes if (held := _holder(node)) is not None}
        self._hooked = any(node.hooks is not None for node in self.nodes)
        # a hook or a user's own backward may run a nested pass, such as that of a reentrant checkpoint
        self._passes_inside = self._hooked or any(getattr(node.op, "function", None) is not None for node in self.nodes)
        self._inside: set[Any] = set()  # the leaves of nested passes
        self._initial = {node: t._grad for node, held in self._watched.items() if (t := held()) is not None}
        self._seed: Any = None  # the initial gradient of the pass
        self._checkpoints = Checkpoints(keep)
        self._replay: Replay | None = None

    @classmethod
    def of(
        cls, recording: Recording, graph: Graph, tensor: Tensor, gradient: Tensor | None = None, keep: int = KEEP, accumulate: bool = True
    ) -> Stepper:
        """Create the pass that `tensor.backward(gradient)` would run. Without `accumulate`, `.grad` of leaves does not change.

        Raises what backward() would raise at its start.
        """

        def begin() -> Iterator:
            leaves = None if accumulate else {node: None for node in tape.plan([tensor.node]) if node.op is None}
            return reverse.start(tensor, gradient, retain_graph=True, captured=leaves, accumulate=accumulate, in_place=False)

        begin()  # raises what backward() would raise
        plan = tape.plan([tensor.node])
        if any(node.op is not None and node.saved is tape.FREED for node in plan):
            raise RuntimeError(
                "The graph was freed by an earlier backward(), so there is nothing left to step through. Compute the tensor again, or call "
                "backward(retain_graph=True) the first time."
            )
        return cls(recording, graph, (tensor.node,), plan, begin, keep)

    def __repr__(self) -> str:
        return "A backward pass that is closed." if self.closed else self.sentence()

    # -- walking --------------------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """The number of steps in the pass."""
        return len(self.nodes)

    @property
    def done(self) -> bool:
        """Whether the pass is at its end."""
        return self.index == self.total

    @property
    def failed(self) -> bool:
        """Whether an error ended the pass at the current step."""
        return self.failure != "" and self.index == len(self.taken)

    def next(self, by: By = "op") -> int:
        """Step forward and return the new index; at the end, do nothing.

        Args:
            by: the size of the step: one "op", one "module", up to the next "parameter" that gets its gradient, or one "iteration" of a
                loop.

        Example::

            >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
            >>> walk = wb.step((w * w).sum())
            >>> walk.next()
            1
            >>> walk.next(by="parameter")
            3
        """
        self._alive()
        if by != "op":
            return self.to(self.places.after(by, self.index))
        if self.index < len(self.taken):
            self._redo()
            while self.index < len(self.taken) and self.taken[self.index - 1] is None:
                self._redo()
        elif self.index < self.total:
            self._run()
        return self.index

    def previous(self, by: By = "op") -> int:
        """Step back and return the new index; at the start, do nothing.

        Args:
            by: the size of the step, as for `Stepper.next`.
        """
        self._alive()
        if by != "op":
            return self.to(self.places.before(by, self.index))
        if self.index:
            self._undo()
            while self.index and self.taken[self.index - 1] is None:
                self._undo()
        return self.index

    def to(self, index: int) -> int:
        """Step forward or back until `index` steps are done."""
        self._alive()
        index = max(0, min(index, self.total))
        while self.index < index:
            self.next()
        while self.index > index:
            self.previous()
        return self.index

    @property
    def places(self) -> Places:
        """The indices at which coarser steps end."""
        if self._places is None or self._places.live and self.graph.finished:
            self._places = Places(self.recording, self.graph, self.plan)
        return self._places

    def run(self, breakpoints: Iterable[Breakpoint] | None = None, back: bool = False) -> int:
        """Run forward or back until a breakpoint stops the pass, otherwise to the end or the start; return the new index.

        `stop` is then the breakpoint's stop, or None. On a GPU, conditions are fetched at most once every 32 steps: the pass may overshoot
        by that many steps, and then returns to the exact step.

        Args:
            breakpoints: by default, those set with `wb.break_at`.
            back: run backwards.
        """
        self._alive()
        self.stop = None
        lookout = Lookout(self, kept.active if breakpoints is None else breakpoints)
        found: Stop | None = None
        try:
            while found is None and self.index != (0 if back else self.total):
                if back:
                    self.previous()
                else:
                    self.next()
                found = lookout.look(self.index)
        except Exception:
            found = lookout.flush()
            if found is None:
                raise
        found = found or lookout.flush()
        if found is not None:
            self.to(found.index)
            self.stop = found
        return self.index

    def run_until(self, stops: str | Breakpoint | Sequence[str | Breakpoint], back: bool = False) -> int:
        """Run to the step where a gradient meets a condition, else to the end; return the new index.

        Args:
            stops: a condition such as "norm > 1e3", a breakpoint from `wb.break_at`, or a list of these.
            back: run backwards, else to the start.

        Raises:
            ValueError: a condition cannot be parsed.

        Example::

            >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
            >>> walk = wb.step((w * w).sum())
            >>> walk.run_until("norm > 4")
            2
            >>> walk.stopped
            'Stopped because norm > 4: the gradient of w so far has norm 4.472.'
        """
        return self.run(named(stops), back)

    @property
    def runs(self) -> bool:
        """Whether the pass, in a running cell, is on its way to a breakpoint."""
        return False

    def halt(self) -> None:
        """Stop a pass that is running to a breakpoint."""

    def sizes(self, index: int) -> tuple[Any, list[tuple[int, Any, Any]]] | None:
        """The gradients of the step that led to `index`: the upstream one, and `(row, contribution, gradient so far)` for each input.

        They are arrays, or Summaries of those that were not kept. None if no gradient arrived.
        """
        taken = self.taken[index - 1]
        if taken is None:
            return None
        if taken.message is not None and taken.upstream is None:
            return taken.message.upstream, [(c.target, c.gradient, c.total) for c in taken.message.contributions]
        pairs = zip(taken.node.inputs, taken.gradients, taken.totals, strict=False)
        return telling.joined(taken.upstream), [
            (self.recording.row_of(source), g, total[0]) for source, g, total in pairs if total is not None
        ]

    def arrived(self) -> dict[int, Any]:
        """Row -> its gradient's array at the current step, if it was kept."""
        found: dict[int, Any] = {}
        for place, taken in enumerate(self.taken[: self.index]):
            if taken is None:
                continue
            if hasattr(taken.upstream, "dtype"):
                found[self.plan[place]] = taken.upstream
            for source, total in zip(taken.node.inputs, taken.totals, strict=False):
                if total is not None and (row := self.recording.row_of(source)) >= 0:
                    found[row] = total[0]
        return found

    def gradients_at(self, index: int, arrived: bool = False) -> list[tuple[str, Any]]:
        """The gradients that a breakpoint checks in the step that led to `index`, as `(description, array)`.

        These are the gradients passed on; with `arrived`, the one that arrived; at a leaf or a root, that one too. A Summary replaces an
        array that was not kept.
        """
        taken = self.taken[index - 1]
        if taken is None:
            return []
        node, row = taken.node, self.plan[index - 1]
        mine = self._called(row)
        sizes = self.sizes(index)
        assert sizes is not None
        upstream, given = sizes
        found: list[tuple[str, Any]] = []
        if arrived or node.op is None or node in self.roots:
            found.append((f"the gradient of {mine}", upstream))
        maker = self.recording.op_name(row)
        for row, g, total in () if arrived else given:
            target = self._called(row)
            found.append((f"what {maker} hands to {target}", g))
            if total is not g:
                found.append((f"the gradient of {target} so far", total))
        return found

    def _called(self, row: int) -> str:
        return self.recording.called(row) if row >= 0 else "a leaf"

    def place_of(self, row: int) -> int:
        """The index just after the (next) step of a node. Raises PassEnded if the pass does not reach it."""
        places = [i + 1 for i, at in enumerate(self.plan) if at == row]
        if not places:
            raise PassEnded("The backward pass does not reach this node.")
        return next((i for i in places if i > self.index), places[0])

    def finish(self) -> None:
        """Run to the end: `.grad` is then what `.backward()` leaves."""
        self.to(self.total)

    def prepare(self) -> None:
        """Run the whole pass and return to the start, so that it can be stepped through even if values are overwritten later.

        An error ends the record where the pass stopped, and is shown when that step is reached.
        """
        try:
            self.finish()
        except Exception as error:
            self.failure = said(error)
        finally:
            self.to(0)

    def close(self) -> None:
        """Release the pass. Unless it is finished, `.grad` is restored to its state before the first step."""
        if not self.closed:
            if not self.done:
                while self.index:
                    self._undo()
            self.closed, self._steps, self._begin = True, None, None

    def _alive(self) -> None:
        if self.closed:
            raise PassEnded("This backward pass was closed. Use wb.step(loss) to get a new one.")

    def _undo(self) -> None:
        self.index -= 1
        taken = self.taken[self.index]
        for held, before, _ in taken.changed if taken is not None else ():
            _put(held, before)

    def _redo(self) -> None:
        taken = self.taken[self.index]
        for held, _, after in taken.changed if taken is not None else ():
            tensor = held()
            # a nested pass in a later step may write into this gradient, and must not write into the record
            _put(held, _copy(after) if tensor is not None and tensor.node in self._inside else after)
        self.index += 1

    # -- the engine's steps ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Run the engine's next step. An interrupt leaves the step undone, and the pass can continue later."""
        grad_mode, tape.mode.grad = tape.mode.grad, False
        before = self._before()
        try:
            if self._steps is None:
                self._revive()
            with observe.observing(_Inside(self, before)) if self._passes_inside else nullcontext():
                for node, upstream, gradients in self._steps or ():
                    if self._took(node, upstream, gradients, before):
                        return
            self._ended()
        except BaseException as error:
            self._steps = None  # an exception ends a generator
            for held, _, restorable, _ in before.values():
                _put(held, restorable)
            if isinstance(error, Exception):
                self.failure = said(error)
            raise
        finally:
            tape.mode.grad = grad_mode

    def _before(self) -> dict:
        """`.grad` of the tensors that the next step may change: of the next leaf, or of all if there are hooks."""
        nodes = self._watched if self._hooked else [n for n in self.nodes[len(self.taken) : len(self.taken) + 1] if n in self._watched]
        found = {}
        for node in nodes:
            held = self._watched[node]
            tensor = held()
            if tensor is not None:
                grad = tensor._grad
                found[node] = (held, grad, self._restorable(grad), 0 if grad is None else versions.version(grad.array))
        return found

    def note_inside(self, plan: list, before: dict) -> None:
        """Save into `before` the gradients of a nested pass's leaves, which it adds into in place."""
        for node in plan:
            tensor = node.tensor() if node.op is None else None
            if tensor is not None:
                grad = tensor._grad
                self._inside.add(node)
                before.setdefault(node, (node.tensor, grad, _copy(grad), 0 if grad is None else versions.version(grad.array)))

    @staticmethod
    def _restorable(grad: Any) -> Any:
        """The value that going back puts into `.grad`: the gradient itself, as the stepper's own steps never write into it."""
        return grad

    def _took(self, node: Any, upstream: Any, gradients: Any, before: dict) -> bool:
        """Record a step of the engine; return False if it is not a step for the reader."""
        upstream, gradients = _plain(upstream), tuple(map(_plain, gradients))
        place = self._place.get(node)
        if place is None:
            self._checkpoints.splits(node)
            self._grads.pop(node, None)
            return False
        totals = [
            None if g is None or source is None else self._total(source, g) for source, g in zip(node.inputs, gradients, strict=False)
        ]
        taken = Taken(node, place + 1, upstream, gradients, totals)
        if node in self._watched and node not in before:  # no gradient reached the expected node
            initial = self._initial.get(node)
            before = {**before, node: (self._watched[node], initial, initial, 0 if initial is None else versions.version(initial.array))}
        for leaf, (held, grad, restorable, version) in before.items():
            t = held()
            if t is not None and (t._grad is not grad or grad is not None and versions.version(grad.array) != version):
                taken.changed.append((held, restorable, _copy(t._grad) if leaf in self._inside else t._grad))
        self._grads.pop(node, None)
        if self._seed is None:
            self._seed = upstream
        self._checkpoints.passed(node)
        if not self._hold(taken):
            self._checkpoints.note(place + 1, self._grads)
        self.taken += [None] * (place - len(self.taken))
        self.taken.append(taken)
        self.index = len(self.taken)
        return True

    def _ended(self) -> None:
        self.taken += [None] * (self.total - len(self.taken))
        self.index = self.total

    def _total(self, source: Any, g: Any) -> tuple[Any, int]:
        """The gradient of a node so far, including this contribution, and the number of contributions; summed as the executor does."""
        held = self._grads.get(source)
        self._grads[source] = (g, 1 + (source in self.roots)) if held is None else (held[0] + g, held[1] + 1)
        return self._grads[source]

    def _hold(self, taken: Taken) -> bool:
        """Keep the step's arrays within the budget. Beyond it, keep only the message that summarizes them, and return False."""
        found = (taken.upstream, *taken.gradients, *[total[0] for total in taken.totals if total is not None])
        arrays = {id(a): a.nbytes for a in found if hasattr(a, "nbytes") and id(a) not in self._held}
        if self.kept_bytes + sum(arrays.values()) > self.keep:
            taken.message = self._describe(taken)
            taken.upstream, taken.gradients, taken.totals = None, (), []
            return False
        self._held.update(arrays)
        self.kept_bytes += sum(arrays.values())
        return True

    def _revive(self) -> None:
        """Restart the generator after an interrupt and run it to the current step. Rules are deterministic, so it is the same pass."""
        if self._begin is None:
            raise PassEnded(self.failure or "This pass is a record: it can be viewed, but not continued.")
        here = self.index
        while self.index:
            self._undo()
        steps = self._begin()
        missing = sum(taken is not None for taken in self.taken)
        try:
            while missing:
                missing -= next(steps)[0] in self._place
        finally:
            for taken in reversed(self.taken):  # the record's own gradients, not those of the rerun
                for held, before, _ in taken.changed if taken is not None else ():
                    _put(held, before)
            while self.index < here:
                self._redo()
        self._steps, self.failure = steps, ""

    # -- messages -------------------------------------------------------------------------------------------------------------

    def gradient(self, row: int, compute: bool = True) -> tuple[Any, str]:
        """The gradient of a row at the current step; or None, and why it is missing.

        A gradient that was not kept is recomputed if the tape still allows it, unless `compute` is False, as while a cell runs.
        """
        for index in range(self.index, 0, -1):
            taken = self.taken[index - 1]
            if taken is None:
                continue
            inputs = [i for i, source in enumerate(taken.node.inputs) if source is not None and self.recording.row_of(source) == row]
            if self.plan[index - 1] != row and not inputs:
                continue
            upstream, totals = taken.upstream, taken.totals
            if upstream is None:
                if not compute:
                    return None, "It was not kept. It can be computed again when the running cell is done."
                try:
                    upstream, _, totals = self._again(index)
                except protocol.Refused as error:
                    return None, f"{error} (More than {bytes_text(self.keep)} of gradients are not kept.)"
            if self.plan[index - 1] == row:
                return telling.joined(upstream), ""
            there = [total for i in inputs if i < len(totals) and (total := totals[i]) is not None]
            if there:
                return there[-1][0], ""
        if row in self.plan and self.index < self.total:
            return None, NOT_YET
        return None, ""

    def _again(self, index: int) -> tuple[Any, tuple, list]:
        """Recompute what a step had that was not kept."""
        if self._replay is None:
            self._replay = Replay(self.nodes, self.roots, self._seed, self._checkpoints, self.keep)
        return self._replay.at(index)

    def step(self, index: int) -> protocol.Step | None:
        """The message of the step that led to `index`; None if no gradient arrived."""
        taken = self.taken[index - 1] if 0 < index <= len(self.taken) else None
        if taken is not None and (taken.message is None or taken.early and self.graph.finished and taken.upstream is not None):
            taken.message, taken.early = self._describe(taken), not self.graph.finished
        return None if taken is None else taken.message

    def steps(self, already: set[int], most: int = AT_ONCE) -> list[protocol.Step]:
        """The messages of the latest `most` steps up to the current one that are not in `already`."""
        wanted = [i for i in range(self.index, 0, -1) if i not in already][:most]
        return [step for i in reversed(wanted) if (step := self.step(i)) is not None]

    def message(self, passes: Sequence[Stepper] = ()) -> protocol.Stepper:
        """The message that describes the pass; `passes` are all that the code ran, including this one."""
        number = next((i for i, one in enumerate(passes) if one is self), 0)
        names = [one.label() for one in passes] or [self.label()]
        state = (self.index, self.failed, self.sentence())
        return protocol.Stepper(self.recording.name, self.mode, self.plan, *state, self.stopped, self.runs, number, names)  # type: ignore[arg-type]

    def label(self) -> str:
        """The name or op of the pass's root."""
        row = self.recording.row_of(self.roots[0]) if self.roots else -1
        return self._called(row) if row >= 0 else "backward"

    @property
    def stopped(self) -> str:
        """A sentence about the breakpoint that stopped the pass at the current step; "" for none."""
        return self.stop.sentence if self.stop is not None and self.stop.index == self.index else ""

    def sentence(self) -> str:
        """A sentence about the current step."""
        if self.failed:
            return f"The pass stopped after step {self.index} of {self.total}: {self.failure}"
        if self.index == 0:
            return f"At the start of the backward pass: {self.total} steps."
        step = self.step(self.index)
        return step.sentence if step is not None else f"Step {self.index} of {self.total}: no gradient arrives here."

    def _describe(self, taken: Taken) -> protocol.Step:
        return telling.describe(self, taken)


class _Inside(observe.Observer):
    """Notifies a stepper of each pass that begins inside a step. Other events go to the observer that was active before."""

    def __init__(self, stepper: Stepper, before: dict) -> None:
        self._stepper, self._before, self._watcher = stepper, before, observe.current
        if self._watcher is not None:
            for name in ("begins", "op", "failed", "wrote", "enter", "leave", "step_begins", "backward", "updated"):
                setattr(self, name, getattr(self._watcher, name))

    def backward_begins(self, roots: tuple, plan: list) -> None:
        if self._watcher is not None:
            self._watcher.backward_begins(roots, plan)
        if roots != self._stepper.roots:  # not the pass itself
            self._stepper.note_inside(plan, self._before)


def _copy(grad: Any) -> Any:
    return None if grad is None else Tensor._wrap(grad.array.copy())


def _plain(grad: Any) -> Any:
    """The array of a gradient. In a pass that records itself gradients are tensors, which would keep its whole graph alive."""
    if isinstance(grad, list):
        return [None if g is None else _plain(g) for g in grad]
    return grad.array if isinstance(grad, Tensor) else grad


def said(error: BaseException) -> str:
    """The error's message, or its type's name if it has none."""
    return str(error) or type(error).__name__


def _holder(node: Any) -> ref | None:
    """The tensor of which the pass sets `.grad` at this node."""
    if node.op is None:
        return node.tensor
    return node.hooks.retain if node.hooks is not None else None


def _put(tensor: ref, grad: Any) -> None:
    t = tensor()
    if t is not None:
        t._grad = grad
