"""Version counters of storages: how often, by which op and when each was last written in place.

Every in-place write calls `note_write`. Before a backward step, `check` raises SpoiledError if an array that the node saved was written
after the node was recorded. Writes and nodes take their times from the same counter, `tick`.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import ref

from ..backends.batch import Batched
from ..base import errors

tick = count(1).__next__  # the time of a node or a write; a node's inputs always have a smaller time than the node
last_write = 0  # the time of the last in-place write to any storage; the backward pass checks only nodes older than this


class Write:
    """How often a storage was written in place, and the op, time and line of the last write."""

    __slots__ = ("storage", "version", "time", "op", "line")

    def __init__(self, owner: Any) -> None:  # created complete, so that an interrupt leaves no partial record
        key = id(owner)
        self.storage = ref(owner, lambda _: _writes.pop(key, None))
        self.version, self.time, self.op = 0, 0, ""
        self.line: tuple[Any, int] | None = None


_writes: dict[int, Write] = {}  # by id of the storage; only storages that were written in place
written = _writes.get  # the last write to the storage with that id; None if it was never written in place


def storage(array: Any) -> Any:
    """The array that owns the memory; all views of one tensor share it, and so do the samples of a vmap."""
    while array.__class__ is Batched:
        array = array.inner
    base = array.base
    return base if isinstance(base, array.__class__) else array


def whole(array: Any) -> Any:
    """The array itself; for the samples of a vmap, also a nested one, the array of the whole batch."""
    while array.__class__ is Batched:
        array = array.inner
    return array


def last_write_of(array: Any) -> Write | None:
    """The last write to the storage of `array`; None if it was never written in place."""
    return _writes.get(id(storage(array)))


def version(array: Any) -> int:
    """Return the version of the storage of `array`: how often it was written in place."""
    return version_at(id(storage(array)))


def version_at(identity: int) -> int:
    """`version` for a caller that already has the id of the storage."""
    write = _writes.get(identity)
    return 0 if write is None else write.version


def note_write(array: Any, op_name: str, at: int | None = None, line: tuple[Any, int] | None = None) -> None:
    """Record that `op_name` has just written the storage of `array`. Its version increases by one, or becomes `at`.

    `line` is the code and line to name, if it is not where the program is now.
    """
    global last_write
    owner = storage(array)
    key = id(owner)
    write = _writes.get(key)
    if write is None:
        write = _writes[key] = Write(owner)
    write.version = write.version + 1 if at is None else at
    last_write = write.time = tick()
    if line is None and (frame := errors.user_frame(2)) is not None:
        line = frame.f_code, frame.f_lineno
    write.op, write.line = op_name, line


def check(node: Any) -> None:
    """Raise SpoiledError if an array that `node` saved was overwritten since. `node` must have saved something."""
    saved = node.saved
    if saved[0].__class__ is tuple:
        saved = (*saved[0], *saved[1:])  # a sequence of tensors is saved as one slot
    for i, array in enumerate(saved):
        if array is None or not hasattr(array, "base"):
            continue
        write = _writes.get(id(storage(array)))
        if write is not None and write.time > node.time:
            slot = node.op.slots[max(0, i - len(saved) + len(node.saved))]
            raise spoiled(array, write, node.op.name, repr(slot))


def spoiled(array: Any, write: Write, op_name: str, what: str) -> errors.SpoiledError:
    """The error to raise when `op_name` saved `array` as `what` and `write` overwrote it afterwards."""
    line = f" at {errors.where(*write.line)}" if write.line else ""
    error = errors.SpoiledError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{op_name} saved {what} of shape {array.shape}, and {write.op} overwrote it{line} "
        f"(version {write.version}). Use the out-of-place form there, or clone() the tensor before it is overwritten."
    )
    error.write = write
    return error
