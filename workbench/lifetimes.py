"""What needs memory, and until when: tensors, what the tape saves, gradients, what an optimizer keeps."""

from __future__ import annotations

from typing import Any
from weakref import ref

from numpy import ndarray

from engine import inplace
from engine.tensor import Tensor

from .recording import HOLDERS, NUMBER, USE, Recording


class Watch(ref):
    """A weak reference to what needs memory as long as it lives: a tensor or a gradient."""

    __slots__ = ("key", "block")
    key: int  # identity of a tensor; 0 for a gradient
    block: list


class Saving(ref):
    """A weak reference to a node of the tape, and what it saves: identities of storages, which live as long as it does.

    Numbers, not blocks: the garbage collector has nothing to look through.
    """

    __slots__ = ("time", "keys")
    time: int
    keys: tuple[int, ...]


class Lifetimes:
    """Follows them for one recorder, by weak references, as long as it lives; its recording has the blocks of memory and the events."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.rows: dict[int, int] = {}  # identity of a live tensor -> row
        self._watches: dict[int, Watch] = {}  # those that no row holds, by their own identity: only what is held can tell of a death
        me = ref(self)

        def died(watch: Any) -> None:
            """What was watched is gone, and so is its need for memory."""
            here = me()
            if here is None:
                return
            r, block = here._recording, watch.block
            holders = block[HOLDERS] = block[HOLDERS] - 1
            if holders:
                r.dropped_at[block[NUMBER]] = len(r.events)
            else:
                r.forget(block)
            row = here.rows.pop(watch.key, None)
            if row is not None and r.ref[row] is watch:
                r.ref[row] = None
            else:
                here._watches.pop(id(watch), None)

        def node_died(saving: Any) -> None:
            here = me()
            if here is not None:
                here.free(saving.time)

        self.on_death, self._on_node_death = died, node_died

    def watch(self, what: Any, key: int, block: list) -> Watch:
        watch = Watch(what, self.on_death)
        watch.key, watch.block = key, block
        return watch

    def hold(self, watch: Watch) -> None:
        """Keep a watch that no row holds."""
        self._watches[id(watch)] = watch

    def block(self, array: Any, row: int) -> list:
        r, owner = self._recording, inplace.storage(array)
        return r.need(id(owner), owner.nbytes, row)

    def saves(self, node: Any, row: int) -> int:
        """The node keeps arrays for its backward: they live as long as it does, or until backward frees it. Their bytes."""
        r, keys, total, time, saved = self._recording, [], 0, node.time, node.saved
        known, events, uses = r.blocks.get, r.events, r.uses.frombytes
        several = type(saved[0]) is tuple  # a sequence of tensors is kept as one
        for place, array in [*((0, part) for part in saved[0]), *enumerate(saved[1:], 1)] if several else enumerate(saved):
            if array is None:
                continue
            if type(array) is ndarray:
                base = array.base
                key = id(base if isinstance(base, ndarray) else array)
            elif hasattr(array, "nbytes"):
                key = id(inplace.storage(array))
            else:
                continue  # a number, or what a user-written Function keeps
            block = known(key)
            if block is None:
                block = self._kept(array, row)
            block[HOLDERS] += 1
            keys.append(key)
            total += array.nbytes
            uses(USE(block[NUMBER], time, place, len(events)))
        if keys:
            saving = r.savings[time] = Saving(node, self._on_node_death)
            saving.time, saving.keys = time, tuple(keys)
        return total

    def _kept(self, array: Any, row: int) -> list:
        """The block of an array that is no tensor's, but only kept by the op's node."""
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
        """The block of an array that no op made, with one holder more: a gradient of that row, or what an optimizer keeps for it."""
        r = self._recording
        owner = array if array.base is None else inplace.storage(array)
        block = r.blocks.get(id(owner))
        if block is None:
            block = r.need(id(owner), owner.nbytes, row, 1, r.count if r.step < 0 else ~r.step)
            r.roles[block[NUMBER]] = role, row
        else:
            block[HOLDERS] += 1
        return block

    def optimizer(self, optimizer: Any) -> None:
        """What it keeps from step to step, from now on."""
        r = self._recording
        for parameter, state in optimizer.state.items():
            for name, kept in state.items():
                for tensor in kept if isinstance(kept, (list, tuple)) else (kept,):
                    if isinstance(tensor, Tensor) and id(inplace.storage(tensor.array)) not in r.blocks:
                        self._keeps(tensor, tensor.array, self.rows.get(id(parameter), -1), name)
        for arrays in getattr(optimizer, "_scratch", {}).values():
            for array in arrays:
                if id(array) not in r.blocks:
                    self._keeps(array, array, -1, "room to compute in")

    def _keeps(self, what: Any, array: Any, row: int, name: str) -> None:
        """An optimizer keeps `what` from step to step, under that name."""
        watch = self.watch(what, 0, self._owned(array, row, name))
        self._recording.others[watch.block[NUMBER]] = watch
        self.hold(watch)

    def free(self, time: int) -> None:
        """The node of that time needs its saved arrays no longer. Called while they, or at least their blocks, are there."""
        r = self._recording
        saving = r.savings.pop(time, None)
        r.freed[time] = len(r.events)
        if saving is not None:
            for key in saving.keys:
                block = r.blocks[key]
                block[HOLDERS] -= 1
                if not block[HOLDERS]:
                    r.forget(block)
