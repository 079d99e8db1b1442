"""Track what uses memory, and for how long: tensors, saved tensors of the tape, gradients, optimizer state."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from engine.core import versions
from engine.core.tensor import Tensor

from .recording import HOLDERS, NUMBER, USE, Recording, Saving, Watch


class Lifetimes:
    """Tracks lifetimes for one recorder through weak references; blocks, events and deaths are stored in its recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.died = recording.dead.append

    def watch(self, what: Any, key: int, block: list) -> Watch:
        watch = Watch(what, self.died)
        watch.key, watch.block = key, block
        return watch

    def hold(self, watch: Watch) -> None:
        """Keep a watch that no row holds."""
        self._recording.watches[id(watch)] = watch

    def block(self, array: Any, row: int) -> list:
        r, owner = self._recording, versions.storage(array)
        return r.need(id(owner), owner.nbytes, row)

    def saves(self, node: Any, row: int) -> int:
        """Register the arrays that a node saves until it dies or backward frees them. Return their size in bytes."""
        r, keys, total, time, saved = self._recording, [], 0, node.time, node.saved
        if type(saved) is not tuple:
            return 0  # a saved-tensor hook of the user's stores something else
        known, events, uses = r.blocks.get, r.events, r.uses.frombytes
        several = type(saved[0]) is tuple  # a sequence of tensors is saved as one
        for place, array in [*((0, part) for part in saved[0]), *enumerate(saved[1:], 1)] if several else enumerate(saved):
            if array is None:
                continue
            if type(array) is ndarray:
                base = array.base
                key = id(base if isinstance(base, ndarray) else array)
            elif hasattr(array, "nbytes"):
                key = id(versions.storage(array))
            else:
                continue  # a scalar, or what a user-written Function saves
            block = known(key)
            if block is None:
                block = self._kept(array, row)
            block[HOLDERS] += 1
            keys.append(key)
            total += array.nbytes
            uses(USE(block[NUMBER], time, place, len(events)))
        if keys:
            saving = Saving(node, self.died)
            saving.time, saving.keys = time, tuple(keys)
            r.savings[time] = saving
        return total

    def _kept(self, array: Any, row: int) -> list:
        """The block of an array that belongs to no tensor and is only saved by the op's node."""
        block = self.block(array, row)
        self._recording.roles[block[NUMBER]] = "saved", row
        return block

    def accumulated(self, leaf: Any) -> None:
        r, tensor = self._recording, leaf.tensor()
        gradient = None if tensor is None else tensor._grad
        if gradient is None:
            return
        row = r.times.get(leaf.time, -1)
        if row < 0 and (row := r.row_of(leaf)) < 0:
            return
        held = r.gradients.get(row)
        if held is not None and held() is gradient:
            return
        block = self._owned(gradient.array, row, "gradient")
        watch = r.gradients[row] = self.watch(gradient, 0, block)
        self.hold(watch)

    def _owned(self, array: Any, row: int, role: str) -> list:
        """The block, with one more holder, of an array that no op made: a gradient, or optimizer state, of that row."""
        r = self._recording
        owner = array if array.base is None else versions.storage(array)
        block = r.blocks.get(id(owner))
        if block is None:
            block = r.need(id(owner), owner.nbytes, row, 1, r.count if r.step < 0 else ~r.step)
            r.roles[block[NUMBER]] = role, row
        else:
            block[HOLDERS] += 1
        return block

    def optimizer(self, optimizer: Any) -> None:
        """Track the optimizer's state from now on."""
        r = self._recording
        for parameter, state in optimizer.state.items():
            for name, kept in state.items():
                for tensor in kept if isinstance(kept, (list, tuple)) else (kept,):
                    if isinstance(tensor, Tensor) and id(versions.storage(tensor.array)) not in r.blocks:
                        self._keeps(tensor, tensor.array, r.rows.get(id(parameter), -1), name)
        for arrays in getattr(optimizer, "_scratch", {}).values():
            for array in arrays:
                if id(array) not in r.blocks:
                    self._keeps(array, array, -1, "room to compute in")

    def _keeps(self, what: Any, array: Any, row: int, name: str) -> None:
        """Register `what` under that name; the optimizer keeps it from step to step."""
        block = self._owned(array, row, name)
        watch = self._recording.others[block[NUMBER]] = self.watch(what, 0, block)
        self.hold(watch)
