"""The tape that a what-if runs on: the user's own while it is alive, otherwise a new one made from the recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy

from engine.core import devices, tape
from engine.core.tensor import Tensor

from ..backward.stepper import Stepper
from ..recording.recompute import Cannot, Recomputed
from ..recording.recording import Recording


@dataclass
class Ground:
    """A backward pass that can be run any number of times without changing `.grad`."""

    recording: Recording
    root: Any  # the node where the pass begins
    seed: Any  # its gradient, as rules expect it
    row: Callable[[Any], int]
    note: str = ""  # how it differs from the recorded pass

    def __post_init__(self) -> None:
        self.nodes = [n for n in tape.plan([self.root]) if n.op is None or not n.op.picks]
        self.rows = [self.row(n) for n in self.nodes]

    def node(self, row: int, place: int = 0) -> Any:
        """The node of a row, or of step number `place` if that is one of the row's. Raises Cannot if the pass does not reach it."""
        if 0 < place <= len(self.nodes) and self.rows[place - 1] == row:
            return self.nodes[place - 1]
        for node, at in zip(self.nodes, self.rows, strict=True):
            if at == row:
                return node
        raise Cannot("The backward pass does not reach this node.")

    def steps(self, roots: list | None = None) -> Any:
        """The engine's own steps from the root, or from other `(node, gradient)` pairs; call it inside `unwatched`."""
        pairs = [(self.root, self.seed)] if roots is None else roots
        # the executor takes gradients as users see them
        given = [(n, g.conj() if n.dtype.kind == "c" and n.shape is not None else g) for n, g in pairs]
        return tape.backward_steps(given, numpy, retain=True, accumulate=False)


class Kept:
    """Restores `.grad` of non-leaf tensors that retain it after the block, as a trial pass sets it too."""

    def __init__(self, nodes: list) -> None:
        held = [n.hooks.retain for n in nodes if n.hooks is not None and n.hooks.retain is not None]
        self._before: list[tuple[ref, Any]] = [(h, t._grad) for h in held if (t := h()) is not None]

    def __enter__(self) -> None:
        for held, _ in self._before:
            if (t := held()) is not None:
                t._grad = None

    def __exit__(self, *error: object) -> None:
        for held, grad in self._before:
            if (t := held()) is not None:
                t._grad = grad


def ground_of(stepper: Stepper) -> Ground:
    """The ground of a pass that has taken its first step, or can take it. Raises Cannot if the pass cannot be run again."""
    recording = stepper.recording
    if len(stepper.roots) != 1:
        raise Cannot(f"This pass begins at {len(stepper.roots)} tensors at once; what-ifs need a pass from one loss.")
    (root,) = stepper.roots
    seed = _seed(stepper, root)
    if all(n.op is None or isinstance(n.saved, tuple) for n in stepper.nodes):
        return Ground(recording, root, seed, recording.row_of)
    again = Recomputed(recording, recording.row_of(root), nodes=tape_nodes(stepper))
    output = again.output
    if output.node is None:
        raise Cannot("The graph was freed by backward(), and the recording does not know how the loss depends on its leaves.")
    rows = again.rows()
    freed = any(n.op is not None and n.saved is tape.FREED for n in stepper.nodes)
    why = "backward() has freed the graph" if freed else "A hook keeps what the graph has saved"
    note = " ".join([f"{why}, so it was computed again from the recording.", *again.notes])
    return Ground(recording, output.node, seed, lambda node: rows.get(node, -1), note)


def ground_of_tensor(recording: Recording, tensor: Tensor) -> Ground:
    """The same for a loss without a stepper: the pass that `tensor.backward()` would run."""
    node = tensor.node
    if node is None:
        raise Cannot("The tensor does not require grad, so there is no backward pass from it.")
    if tensor.array.size != 1:
        raise Cannot(f"Expected a scalar loss, got a tensor of shape {tuple(tensor.shape)}. Reduce it first, e.g. with .sum().")
    if any(n.op is not None and n.saved is tape.FREED for n in tape.plan([node])):
        raise Cannot("The graph was freed by backward(). Compute the loss again, or call backward(retain_graph=True) the first time.")
    return Ground(recording, node, numpy.ones_like(tensor.array), recording.row_of)


def tape_nodes(stepper: Stepper) -> dict[int, Any]:
    """The tape's nodes by row: they have arguments that a recording does not keep."""
    return dict(zip(stepper.plan, stepper.nodes, strict=True))


def plan_of(recording: Recording, root: Any) -> dict[int, Any]:
    """The same for the pass from a node without a stepper."""
    return {recording.row_of(n): n for n in tape.plan([root]) if n.op is None or not n.op.picks}


def _seed(stepper: Stepper, root: Any) -> Any:
    first = next((t for t in stepper.taken if t is not None and t.node is root), None)
    if first is None and stepper.mode == "live" and not stepper.taken:
        stepper.next()
        stepper.previous()
        first = next((t for t in stepper.taken if t is not None), None)
    hooked = root.hooks is not None and root.hooks.before
    if first is not None and first.upstream is not None and not hooked:
        return first.upstream
    if root.shape is not None and not any(n != 1 for n in root.shape):
        device = stepper.recording.device(stepper.plan[stepper.nodes.index(root)])
        return devices.move(numpy.ones(root.shape, root.dtype), devices.device(device or "cpu"))
    raise Cannot("The gradient with which this pass began is not known: take its first step.")
