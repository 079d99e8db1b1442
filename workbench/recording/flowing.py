"""Memory of gradients during a backward pass, between the step that makes a gradient and the step that takes it."""

from __future__ import annotations

from typing import Any

from engine.core import versions
from engine.core.tensor import Tensor

from .recording import HOLDERS, KEY, NUMBER, Recording


class Flowing:
    """Tracks the gradients that wait for their node's step. Counts only what the executor itself holds, not what a view keeps."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._waiting: dict[int, list[list]] = {}  # the tape's time of a node -> blocks of the gradients that have arrived there
        self._outer: list[dict[int, list[list]]] = []  # the same for the outer passes, a step of which began the next one

    def begins(self, around: int) -> None:
        """Begin a pass nested in `around` others, which keep their waiting gradients. Deeper ones were ended by an error."""
        self.end(around)
        if around:
            self._outer.append(self._waiting)
            self._waiting = {}

    def step(self, node: Any, grad: Any, input_grads: tuple) -> None:
        """Account for a step in which `node` turned `grad` into `input_grads`. A pass that is itself recorded has rows for them."""
        if isinstance(grad, Tensor):
            return
        waiting = self._waiting
        taken = waiting.pop(node.time, ())
        if taken and taken[0][KEY] < 0 and hasattr(grad, "base"):
            self._found(taken[0], grad)
        if input_grads:
            r, part = self._recording, node.op.picks
            known = r.blocks.get
            for source, g in zip(node.inputs, input_grads, strict=False):
                if g is None or source is None or isinstance(g, Tensor):
                    continue
                owner = g if g.base is None else versions.storage(g)
                time = source.time
                block = known(id(owner))
                if block is None:
                    block = self._block(id(owner), owner.nbytes, time)
                else:
                    block[HOLDERS] += 1
                before = waiting.get(time)
                if before is None:
                    waiting[time] = [block]
                    continue
                before.append(block)
                if len(before) == 2 and not part:  # the executor adds: for a moment there are both and their sum, an unreported array
                    total = self._block(~len(r.events), g.nbytes, time)
                    for addend in before:
                        self._release(addend)
                    before[:] = [total]
        for block in taken:
            block[HOLDERS] -= 1
            if not block[HOLDERS]:
                self._recording.forget(block)

    def end(self, around: int = 0) -> None:
        """End all but `around` passes; the gradients still waiting in the others are dropped."""
        while len(self._outer) >= max(around, 1):
            self._let_go()
            self._waiting = self._outer.pop()
        if not around:
            self._let_go()

    def _let_go(self) -> None:
        for blocks in self._waiting.values():
            for block in blocks:
                self._release(block)
        self._waiting.clear()

    def _block(self, key: int, nbytes: int, time: int) -> list:
        """Create the block of a gradient that waits for the step of the node with that time, which holds it."""
        r = self._recording
        row = r.times.get(time, -1)
        block = r.need(key, nbytes, row, 1, ~r.step)
        r.roles[block[NUMBER]] = "flowing", row
        return block

    def _found(self, block: list, grad: Any) -> None:
        """Identify the sum now that its array is known: its memory may be passed on to other nodes."""
        blocks, key = self._recording.blocks, id(versions.storage(grad))
        if key not in blocks:
            del blocks[block[KEY]]
            block[KEY] = key
            blocks[key] = block

    def _release(self, block: list) -> None:
        block[HOLDERS] -= 1
        if not block[HOLDERS]:
            self._recording.forget(block)
