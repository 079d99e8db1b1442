"""Recompute gradients of a pass that were not kept, from the nearest checkpoint and what the tape still saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from engine.base import observe
from engine.core import tape

from .. import protocol

EVERY = 64  # steps between two checkpoints
SHARE = 4  # checkpoints, and what one replay keeps, each use at most 1/SHARE of the pass's budget

Gradient = tuple[Any, int]  # an array, and the number of contributions summed in it


class Checkpoints:
    """The gradients in flight at some steps of a pass, from which part of it can be rerun."""

    def __init__(self, keep: int) -> None:
        self.room = keep // SHARE
        self.all: list[tuple[int, dict[Any, Gradient]]] = []  # (steps done, gradients so far of the nodes still to come)
        self._several: set[Any] = set()  # ops with several results, some of whose gradients have arrived

    def splits(self, pick: Any) -> None:
        """Note a gradient for one of an op's several results. They are not a single array, so no checkpoint is made until the op's step."""
        self._several.add(pick.inputs[0])

    def passed(self, node: Any) -> None:
        """Note that the step of a node has been taken."""
        self._several.discard(node)

    def note(self, place: int, gradients: Mapping[Any, Gradient]) -> None:
        """Save the gradients in flight after `place` steps, the last of which was not kept."""
        last = self.all[-1][0] if self.all else 0
        if place - last < EVERY or self._several:
            return
        arrays = {id(g): g.nbytes for g, _ in gradients.values()}
        if sum(arrays.values()) <= self.room:
            self.room -= sum(arrays.values())
            self.all.append((place, dict(gradients)))

    def before(self, place: int) -> tuple[int, dict[Any, Gradient]] | None:
        """The last checkpoint before step `place`."""
        return next((one for one in reversed(self.all) if one[0] < place), None)


class Replay:
    """A part of a pass, rerun without side effects: `steps[place]` is `(upstream, gradients, totals)` as in the pass."""

    def __init__(self, nodes: Sequence[Any], roots: Sequence[Any], seed: Any, checkpoints: Checkpoints, keep: int) -> None:
        self.nodes, self.roots, self.seed, self.checkpoints = nodes, roots, seed, checkpoints
        self.room = max(keep // SHARE, 1 << 20)
        self.steps: dict[int, tuple[Any, tuple, list]] = {}
        self._place = {node: i + 1 for i, node in enumerate(nodes)}

    def at(self, place: int) -> tuple[Any, tuple, list]:
        """What step `place` had. Raises Refused, with the reason, if the tape can no longer provide it."""
        if place not in self.steps:
            self._run(place)
        return self.steps[place]

    def _run(self, place: int) -> None:
        if len(self.roots) > 1 or self.seed is None:
            raise protocol.Refused("It was not kept, and a pass from several results is not computed again.")
        start, gradients = self.checkpoints.before(place) or (0, {self.roots[0]: (self.seed, 1)})
        held = self._checked(start, place)
        self.steps, room = {}, self.room
        totals: dict[Any, Gradient] = dict(gradients)
        seeds = [(node, g if node.shape is None or node.dtype.kind != "c" else g.conj()) for node, (g, _) in gradients.items()]
        watching, observe.current = observe.current, None
        grad_mode, tape.mode.grad = tape.mode.grad, False
        try:
            for node, upstream, given in tape.backward_steps(seeds, numpy, True, None, accumulate=False):
                sums = []
                for source, g in zip(node.inputs, given, strict=False):
                    if g is None or source is None or node.op.picks:
                        sums.append(None)
                        continue
                    before = totals.get(source)
                    totals[source] = (g, 1) if before is None else (before[0] + g, before[1] + 1)
                    sums.append(totals[source])
                totals.pop(node, None)
                at = self._place.get(node)
                if at is None:
                    continue
                self.steps[at] = (upstream, tuple(given), sums)
                room -= sum(a.nbytes for a in (upstream, *given) if hasattr(a, "nbytes"))
                while room < 0 and len(self.steps) > 1:
                    old_upstream, old_given, _ = self.steps.pop(next(iter(self.steps)))
                    room += sum(a.nbytes for a in (old_upstream, *old_given) if hasattr(a, "nbytes"))
                if at == place:
                    return
        except RuntimeError as error:  # the tape refuses: a saved tensor was overwritten
            raise protocol.Refused(f"It was not kept, and cannot be computed again: {error}") from error
        finally:
            observe.current, tape.mode.grad = watching, grad_mode
            for tensor, grad in held:
                tensor._grad = grad
        raise protocol.Refused("It was not kept, and the pass run again does not come to this step.")

    def _checked(self, start: int, place: int) -> list[tuple[Any, Any]]:
        """The tensors with a retained gradient that a rerun would change, and that gradient. Refused if the tape or a hook forbids it."""
        held = []
        for node in self.nodes[start:place]:
            if node.op is not None and node.saved is tape.FREED:
                raise protocol.Refused(
                    "It was not kept, and cannot be recomputed: backward() freed the saved tensors. Its step has a summary; "
                    "backward(retain_graph=True) keeps them."
                )
            if node.op is not None and isinstance(node.saved, tape.Packed):
                raise protocol.Refused("It was not kept, and is not computed again: the hooks that unpack saved tensors would run twice.")
            if node.hooks is not None and (node.hooks.before or node.hooks.post):
                raise protocol.Refused("It was not kept, and is not computed again: a hook would run a second time.")
            tensor = node.hooks.retain() if node.hooks is not None and node.hooks.retain is not None else None
            if tensor is not None:
                held.append((tensor, tensor._grad))
        return held
