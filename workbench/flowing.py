"""Gradients on their way through a backward pass: what memory they need between the step that makes them and the step that takes them."""

from __future__ import annotations

from typing import Any

from engine import inplace
from engine.tensor import Tensor

from .recording import HOLDERS, KEY, NUMBER, Recording


class Flowing:
    """Counts the gradients that wait for their node's step. Only what the executor itself holds counts, not what a view keeps of it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._waiting: dict[int, list[list]] = {}  # the tape's time of a node -> blocks of what has arrived there

    def step(self, node: Any, grad: Any, input_grads: tuple) -> None:
        """`node` has turned `grad` into `input_grads`; a pass that is recorded itself has rows for all of them."""
        if isinstance(grad, Tensor):
            return
        waiting = self._waiting
        taken = waiting.pop(node.time, ())
        if taken and taken[0][KEY] < 0 and hasattr(grad, "base"):
            self._found(taken[0], grad)
        for source, g in zip(node.inputs, input_grads, strict=False):  # a leaf has inputs, and no gradients for them
            if g is not None and source is not None and not isinstance(g, Tensor):
                self._arrived(source, g, node.op.picks)
        for block in taken:
            self._release(block)

    def end(self) -> None:
        """The pass is over; what has not been taken is gone with it."""
        for blocks in self._waiting.values():
            for block in blocks:
                self._release(block)
        self._waiting.clear()

    def _arrived(self, source: Any, g: Any, part: bool) -> None:
        r, owner = self._recording, inplace.storage(g)
        block = r.blocks.get(id(owner)) or self._block(id(owner), owner.nbytes, source)
        block[HOLDERS] += 1
        before = self._waiting.setdefault(source.time, [])
        before.append(block)
        if len(before) == 2 and not part:  # the executor adds: for a moment there are both and the sum, a new array that nobody tells of
            total = self._block(~len(r.events), g.nbytes, source)
            total[HOLDERS] += 1
            for addend in before:
                self._release(addend)
            before[:] = [total]

    def _block(self, key: int, nbytes: int, source: Any) -> list:
        r = self._recording
        row = r.times.get(source.time, -1)
        block = r.need(key, nbytes, row, 0, ~r.step)
        r.roles[block[NUMBER]] = "flowing", row
        return block

    def _found(self, block: list, grad: Any) -> None:
        """The sum is at hand now: its memory may go on to other nodes."""
        blocks, key = self._recording.blocks, id(inplace.storage(grad))
        if key not in blocks:
            del blocks[block[KEY]]
            block[KEY] = key
            blocks[key] = block

    def _release(self, block: list) -> None:
        block[HOLDERS] -= 1
        if not block[HOLDERS]:
            self._recording.forget(block)
