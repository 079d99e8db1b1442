"""Fork a backward pass: change one gradient and let the engine recompute the rest from there. `.grad` does not change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy

from engine.core.tensor import Tensor

from ..backward.stepper import Stepper
from ..backward.telling import joined
from ..inspector import host
from ..inspector.numbers import norm, wide
from ..recording.recompute import Cannot, unwatched
from .expression import Expression, edited
from .ground import Ground, Kept, ground_of

KEEP = 128 << 20  # bytes of gradients kept for the forks of a pass; beyond that, only those of leaves


@dataclass(frozen=True)
class Edit:
    """One change: to the gradient that arrives at a row (`slot` -1), or to the one that its step passes to input `slot`.

    `text` is an expression in `g`; with an `index`, it replaces that one element, and `g` is the element. `place` is the step's number if a
    row has several steps (after an in-place write); 0 is the row's first.
    """

    row: int
    text: str
    slot: int = -1
    index: tuple[int, ...] | None = None
    place: int = 0

    def on(self, gradient: Any) -> Any:
        """The changed gradient, as a new array."""
        return Expression(self.text).on(gradient) if self.index is None else edited(gradient, list(self.index), self.text)

    def __str__(self) -> str:
        at = "" if self.index is None else f"[{', '.join(map(str, self.index))}]"
        return f"g{at} = {self.text}"


@dataclass
class Run:
    """The gradients of one run of the pass: for each row at its step, and what each step passed on."""

    gradients: dict[int, Any] = field(default_factory=dict)
    leaves: dict[int, Any] = field(default_factory=dict)
    given: dict[tuple[int, int], Any] = field(default_factory=dict)  # (row, slot) -> contribution


class Fork:
    """The result of `wb.whatif.fork`: a backward pass with one gradient changed.

    Rows are numbers of tensors in the recording.

    Attributes:
        name: the name of the fork.
        leaves: the gradients that the leaves would have got from this pass, by row.
        written: whether `.grad` of some leaf is currently this fork's.
    """

    def __init__(self, name: str, edit: Edit, place: int, base: Run, run: Run, ground: Ground) -> None:
        self.name, self.edit, self.place = name, edit, place
        self.base, self.run, self.ground = base, run, ground
        self.differences = {row: relative_difference(g, base.gradients.get(row)) for row, g in run.gradients.items()}
        self._before: list[tuple[ref, Any, Any]] = []  # tensor, .grad before, .grad written

    @property
    def leaves(self) -> dict[int, Any]:
        """The gradients that the leaves would have got from this pass, by row."""
        return self.run.leaves

    def difference(self, row: int) -> float | None:
        """‖fork − base‖ / ‖base‖ of the row's gradient; None if the base has none, infinite if only the base is zero."""
        return self.differences.get(row)

    @property
    def written(self) -> bool:
        """Whether `.grad` of some leaf is currently this fork's."""
        return any((t := held()) is not None and t._grad is grad for held, _, grad in self._before)

    def write(self, stepper: Stepper) -> None:
        """Set `.grad` to what `backward()` would have left with the change; `stepper` is the pass that was forked. `undo` reverts it."""
        if stepper.mode == "paused":
            raise Cannot("The cell's own backward() still runs and would write over them. Let the pass end first.")
        if self.written:
            raise Cannot(f"The gradients of {self.name} are in .grad already.")
        if stepper.mode == "live" and not stepper.done:
            stepper.finish()
        for node, row in zip(stepper.nodes, stepper.plan, strict=True):
            if node.op is not None or row not in self.leaves or (t := node.tensor()) is None:
                continue
            first, g = _initial(stepper, node), self.leaves[row]
            grad = Tensor._wrap(g.copy()) if first is None else Tensor._wrap(first.array + g)
            self._before.append((node.tensor, t._grad, grad))
            t._grad = grad

    def undo(self) -> None:
        """Restore the `.grad` from before `write`, except of leaves whose `.grad` has been set since."""
        for held, before, grad in self._before:
            if (t := held()) is not None and t._grad is grad:
                t._grad = before
        self._before = []

    def __repr__(self) -> str:
        r = self.ground.recording
        lines = [f"Fork “{self.name}”: at {r.called(self.edit.row)}, {self.edit}"]
        for row in self.base.leaves:
            base, fork = (norm_of(run.leaves.get(row)) for run in (self.base, self.run))
            lines.append(f"  {r.called(row)}: ‖∇‖ {base:.4g} → {fork:.4g}, relative difference {self.differences.get(row, 0.0):.3g}")
        return "\n".join(lines)


class Forks:
    """The forks of one pass, by name. The base is computed once, by the engine, on the same tape."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.made: dict[str, Fork] = {}
        self._ground: Ground | None = None
        self._base: Run | None = None
        self._count = 0

    @property
    def ground(self) -> Ground:
        """The tape on which the pass is rerun."""
        if self._ground is None:
            with unwatched():
                self._ground = ground_of(self.stepper)
        return self._ground

    def base(self) -> Run:
        """The unchanged pass."""
        if self._base is None:
            self._base = Run()
            with unwatched(grad=False), Kept(self.ground.nodes):
                _follow(self.ground, self.ground.steps(), self._base)
        return self._base

    def make(self, edit: Edit, name: str = "") -> Fork:
        """Create a fork, replacing an earlier one of the same name. Raises BadExpression or Cannot with a sentence."""
        self._count += 1
        name = name.strip() or f"fork {self._count}"
        old = self.made.get(name)
        if old is not None and old.written:
            raise Cannot(f"The gradients of {name} are in .grad. Undo that first, or choose another name.")
        base, ground = self.base(), self.ground
        with unwatched(grad=False), Kept(ground.nodes):
            place, pending, run = _until(ground, edit)
            _follow(ground, ground.steps(list(pending.items())), run)
        fork = Fork(name, edit, place, base, run, ground)
        self._hold(fork)
        self.made[name] = fork
        return fork

    def delete(self, name: str) -> None:
        """Delete a fork, first undoing it if its gradients are in `.grad`."""
        self.find(name).undo()
        del self.made[name]

    def find(self, name: str) -> Fork:
        """The fork of that name. Raises Cannot if there is none."""
        if name not in self.made:
            raise Cannot(f"There is no fork named “{name}”" + (f"; there are {', '.join(self.made)}." if self.made else " yet."))
        return self.made[name]

    def _hold(self, fork: Fork) -> None:
        """Keep within the budget: if gradients of intermediates need too much, only the differences are kept."""
        held = sum(host(g).nbytes for f in [*self.made.values(), fork] for g in [*f.run.gradients.values(), *f.run.given.values()])
        if held > KEEP:
            fork.run.gradients, fork.run.given = dict(fork.run.leaves), {}


def forks_of(stepper: Stepper) -> Forks:
    """The forks of a pass; they live as long as it does."""
    if stepper.forks is None:
        stepper.forks = Forks(stepper)
    return stepper.forks


def _initial(stepper: Stepper, leaf: Any) -> Any:
    """`.grad` of a leaf before the pass changed it."""
    for taken in stepper.taken:
        if taken is not None and taken.node is leaf:
            return next((before for held, before, _ in taken.changed if held() is leaf.tensor()), None)
    return None


def relative_difference(fork: Any, base: Any) -> float | None:
    """‖fork − base‖ / ‖base‖ in float64."""
    if fork is None or base is None:
        return None
    with numpy.errstate(all="ignore"):
        apart, size = norm(wide(fork) - wide(base)), norm(base)
    if apart == 0:
        return 0.0
    return apart / size if size else float("inf")


def norm_of(gradient: Any) -> float:
    """The Euclidean norm in float64; 0 for None."""
    return 0.0 if gradient is None else norm(gradient)


def _follow(ground: Ground, steps: Any, run: Run) -> None:
    """Record a run of the engine."""
    for node, upstream, gradients in steps:
        _note(ground, run, node, upstream, gradients)


def _note(ground: Ground, run: Run, node: Any, upstream: Any, gradients: Any) -> None:
    if node.op is not None and node.op.picks:
        return
    row = ground.row(node)
    gradient = joined(upstream)
    run.gradients[row] = gradient
    if node.op is None:
        run.leaves[row] = gradient.conj() if node.dtype.kind == "c" else gradient  # as in .grad
    for slot, g in enumerate(gradients):
        if g is not None:
            run.given[row, slot] = g


def _until(ground: Ground, edit: Edit) -> tuple[int, dict, Run]:
    """Run up to the change: its step number, the gradients then pending at each node, including the changed one, and the run so far."""
    target = ground.node(edit.row, edit.place)
    if target.op is None and edit.slot >= 0:
        raise Cannot("A leaf passes its gradient to no other node: change the gradient that arrives there.")
    pending: dict[Any, Any] = {ground.root: ground.seed}
    run, place = Run(), 0
    for node, upstream, gradients in ground.steps():
        picks = node.op is not None and node.op.picks
        place += not picks
        if node is target and edit.slot < 0:
            return place, _changed_upstream(pending, node, edit), run
        if not picks:
            _leave(pending, node)
            given = list(gradients)
            if node is target:
                if edit.slot >= len(given) or given[edit.slot] is None:
                    raise Cannot(f"Input {edit.slot} of this op gets no gradient.")
                given[edit.slot] = edit.on(given[edit.slot])
            for source, g in zip(node.inputs, given, strict=False):
                if g is not None:
                    pending[source] = pending[source] + g if source in pending else g
            _note(ground, run, node, upstream, given)
            if node is target:
                return place, pending, run
    raise Cannot("No gradient arrives at this node, so there is none to change.")


def _leave(pending: dict, node: Any) -> None:
    """Remove the pending gradients that the node's step uses, those of its results included."""
    pending.pop(node, None)
    for waiting in [n for n in pending if n.op is not None and n.op.picks and n.inputs[0] is node]:
        del pending[waiting]


def _changed_upstream(pending: dict, node: Any, edit: Edit) -> dict:
    at = [n for n in pending if n is node or n.op is not None and n.op.picks and n.inputs[0] is node]
    if len(at) != 1:
        raise Cannot(f"Gradients arrive at {len(at)} results of this op. Change the one you mean where it is handed on.")
    return {**pending, at[0]: edit.on(pending[at[0]])}
