"""Versions: how often a storage was written in place, by what and when. Backward refuses what was overwritten since it was saved."""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import ref

from ..backends.batch import Batched
from ..base import errors

tick = count(1).__next__  # a node's place in time; inputs always have a smaller one than outputs
last_write = 0  # when anything was last written in place, in the tape's time; backward looks closer only at nodes older than this


class Write:
    """How often a storage was written in place, and by what the last time."""

    __slots__ = ("storage", "version", "time", "op", "line")

    def __init__(self, owner: Any) -> None:  # whole at once: an interrupt finds none or all of it
        key = id(owner)
        self.storage = ref(owner, lambda _: _writes.pop(key, None))
        self.version, self.time, self.op = 0, 0, ""
        self.line: tuple[Any, int] | None = None


_writes: dict[int, Write] = {}  # by id of the storage; only storages that were ever written are in it
written = _writes.get  # the last write to the storage of that identity; None when it was never written in place


def storage(array: Any) -> Any:
    """The array that owns the memory: views of one tensor have the same, and so have the samples that a vmap makes of it."""
    array = whole(array)
    base = array.base
    return base if isinstance(base, array.__class__) else array


def whole(array: Any) -> Any:
    """The array itself; of the samples of a vmap, nested ones too, the array with the whole batch."""
    while array.__class__ is Batched:
        array = array.inner
    return array


def last_write_of(array: Any) -> Write | None:
    """The last write to the storage of `array`; None when it was never written in place."""
    return _writes.get(id(storage(array)))


def version(array: Any) -> int:
    """How often the storage of `array` was written in place."""
    return version_at(id(storage(array)))


def version_at(identity: int) -> int:
    """The same for the identity of a storage, for who knows it already."""
    write = _writes.get(identity)
    return 0 if write is None else write.version


def note_write(array: Any, op_name: str, at: int | None = None) -> None:
    """The storage of `array` has just changed; who saved it before can no longer use it. Its version is one more, or `at`."""
    global last_write
    owner = storage(array)
    key = id(owner)
    write = _writes.get(key)
    if write is None:
        write = _writes[key] = Write(owner)
    write.version = write.version + 1 if at is None else at
    last_write = write.time = tick()
    frame = errors.user_frame()
    write.op, write.line = op_name, (frame.f_code, frame.f_lineno) if frame is not None else None


def check(node: Any) -> None:
    """Refuse to differentiate with an array that was overwritten after `node`, which saved something, saved it."""
    saved = node.saved
    if saved[0].__class__ is tuple:
        saved = (*saved[0], *saved[1:])  # a sequence of tensors is kept as one
    for i, array in enumerate(saved):
        if array is None or not hasattr(array, "base"):
            continue
        write = _writes.get(id(storage(array)))
        if write is not None and write.time > node.time:
            slot = node.op.slots[max(0, i - len(saved) + len(node.saved))]
            raise spoiled(array, write, node.op.name, repr(slot))


def spoiled(array: Any, write: Write, op_name: str, what: str) -> errors.SpoiledError:
    """What to raise when `op_name` saved `array` as `what`, and `write` came after."""
    line = f" at {errors.where(*write.line)}" if write.line else ""
    error = errors.SpoiledError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{op_name} saved {what} of shape {array.shape}, and {write.op} wrote over it{line} "
        f"(version {write.version}). Use the out-of-place form there, or clone() the tensor before it is overwritten."
    )
    error.write = write
    return error
