"""The last steps of a training, with what it takes to repeat them, in bounded memory.

Batches, random states and learning rates are kept for each step. Parameters and the optimizer's state are copied from time to time only:
a later step is reached by repeating those in between. Two of these snapshots are kept, so that the older one is always far enough back.
"""

from __future__ import annotations

import mmap
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy

from .values import Copy, copies

IN_MEMORY = 32 << 20  # bytes up to which a snapshot stays in memory; a larger one is in a temporary file, which ends with the process
END = {"@": "end"}  # stands for the end of a loop
FEW = 8  # batches that a loop may fetch ahead
CURVE = 10_000  # losses that are kept for the curve


@dataclass
class Step:
    """One step of a training, as it began and what came of it.

    Attributes:
        number: how many steps came before it.
        site: which of the loops in the block it belongs to, in the order in which they began.
        item: a copy of what the loop got: the batch. `END` if there was none, and the step trains on what was fetched before.
        random: the random states after the batch was made.
        small: learning rates, modes, schedulers.
        variables: copies of the loop's numbers and small tensors.
        missed: what the loop got since the step before, without training until it got `item`.
        ahead: the last batches before `item`, for a program that fetches ahead of what it trains on: as many as it had at its first step.
        parts: what loops within the step got that began in an earlier one, by the place of the loop, with the random states then.
        idle: loops that had trained nothing: those over validation data.
        whole: a snapshot of all tensors; None for most steps.
        slot: the number of the memory that the snapshot is in.
        gradients: the gradients that were there before the first backward pass; only with a snapshot.
        prints: the names of its ops and samples of their results; only with a snapshot.
        losses: what `backward()` was called on.
        ended: the loop's numbers at the end.
        sums: a checksum of each parameter and gradient at the end.
        error: the exception that ended it, "" without one.
    """

    number: int
    site: int
    item: Any
    random: dict[str, Any]
    small: dict[str, Any]
    variables: dict[str, Any]
    missed: list[Any] = field(default_factory=list)
    ahead: list[Any] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)
    idle: list[int] = field(default_factory=list)
    whole: dict[str, Any] | None = None
    slot: int = -1
    gradients: dict[str, Any] = field(default_factory=dict)
    prints: dict[str, Any] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    ended: dict[str, Any] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    error: str = ""

    @property
    def loss(self) -> float:
        """The sum of the losses: of the micro-batches, or of several models."""
        return sum(self.losses)

    def __repr__(self) -> str:
        return f"Step {self.number}: loss {self.loss:.6g}" if self.losses else f"Step {self.number}"


class Fetched:
    """What a loop has got so far, as far as a program that fetches ahead of what it trains on needs it again.

    Before its first step it has fetched the batches of that step, and those ahead of it. From then on as many stay ahead.
    """

    def __init__(self) -> None:
        self._items: deque[Any] = deque(maxlen=2 * FEW)
        self._missed = 0  # since the last step that trained
        self._first: int | None = None  # how many there were before the first step that trained
        self._ahead: int | None = None

    @property
    def unfinished(self) -> bool:
        """Whether something may be left to train on when the loop ends."""
        return bool(self._first if self._ahead is None else self._ahead) or self._missed > 0

    def add(self, item: Any, losses: int) -> None:
        """Add what a step got when it has ended; it ran a backward pass for that many losses, none if it did not train."""
        self._items.append(item)
        if not losses:
            self._missed += 1
            return
        if self._first is None:
            self._first = min(self._missed, FEW)
            self._ahead = max(0, self._first + 1 - losses) if losses > 1 or not self._first else None
        elif self._ahead is None:
            self._ahead = max(0, self._first - self._missed)
        self._missed = 0

    def before(self) -> tuple[list[Any], list[Any]]:
        """`missed` and `ahead` of the step that begins now."""
        items, first, missed = list(self._items), self._first or 0, min(self._missed, FEW)
        ahead = max(0, first - missed) if self._ahead is None else self._ahead
        return items[len(items) - missed :], items[max(0, len(items) - missed - ahead) :]


class Log:
    """The steps that can be repeated, the newest last: at least the last `keep`, once that many have run."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.steps: deque[Step] = deque()
        self.curve: deque[tuple[int, float]] = deque(maxlen=CURVE)
        self._slots = Slot(), Slot()

    def add(self, step: Step) -> None:
        """Add a step that has begun. Steps before the older snapshot are dropped as soon as the newer one is `keep` steps old."""
        self.steps.append(step)
        snapshots = [i for i, one in enumerate(self.steps) if one.whole is not None]
        if len(snapshots) > 1 and len(self.steps) - snapshots[1] >= self.keep:
            for _ in range(snapshots[1]):
                self.steps.popleft()

    @property
    def room(self) -> bool:
        """Whether a snapshot can be taken: one that is still needed is not overwritten."""
        return sum(one.whole is not None for one in self.steps) < len(self._slots)

    def take(self, step: Step, whole: dict[str, Any]) -> None:
        """Give a step its snapshot, whose tensors share the memory of the training until they are copied here. There must be `room`."""
        step.slot = next(i for i in range(len(self._slots)) if all(one.slot != i for one in self.steps))
        self._slots[step.slot].store(copies(whole))
        step.whole = whole

    def make_room(self) -> None:
        """Forget the older snapshot, and the steps that only it can reach."""
        while not self.room:
            self.steps.popleft()
            while self.steps and self.steps[0].whole is None:
                self.steps.popleft()

    def last(self) -> list[Step]:
        """The steps from the newest snapshot that is at least `keep` steps back, which is the only one among them."""
        steps = list(self.steps)
        begin = max((i for i, one in enumerate(steps) if one.whole is not None and len(steps) - i >= self.keep), default=0)
        return [steps[begin], *(replace(one, whole=None, gradients={}, ahead=[], prints={}) for one in steps[begin + 1 :])]

    def drop(self, step: Step) -> None:
        """Take back the step that was added last, as it trained nothing."""
        if self.steps and self.steps[-1] is step:
            self.steps.pop()

    def before(self, number: int) -> list[Step]:
        """The steps from the newest snapshot at or before a step, up to it. Raises LookupError if it is not kept."""
        found = [one for one in self.steps if one.number <= number]
        begin = next((i for i in range(len(found) - 1, -1, -1) if found[i].whole is not None), None)
        if begin is None or found[-1].number != number:
            kept = f"kept are {self.steps[0].number} to {self.steps[-1].number}" if self.steps else "none has run yet"
            raise LookupError(f"Step {number} is not kept; {kept}.")
        return found[begin:]


class Slot:
    """Memory, or a temporary file, that one snapshot after the other is written to."""

    def __init__(self) -> None:
        self._memory = numpy.empty(0, numpy.uint8)
        self._file: Any = None

    def store(self, parts: Iterable[Copy]) -> None:
        """Copy the bytes of `parts`, which are where they were copied to from now on."""
        parts = list(parts)
        size = sum(part.data.nbytes for part in parts)
        if size > IN_MEMORY:
            self._write(parts, size)
            return
        if self._memory.nbytes < size:
            self._memory = numpy.empty(size, numpy.uint8)
        at = 0
        for part in parts:
            place = self._memory[at : at + part.data.nbytes]
            numpy.copyto(place, part.data)
            part.data, at = place, at + part.data.nbytes

    def _write(self, parts: list[Copy], size: int) -> None:
        self._memory = numpy.empty(0, numpy.uint8)
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="flight-")  # noqa: SIM115  open as long as the recorder
            weakref.finalize(self, self._file.close)
        self._file.seek(0)
        for part in parts:
            self._file.write(part.data)
        self._file.flush()
        mapped, at = numpy.frombuffer(mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ), numpy.uint8), 0  # read when needed
        for part in parts:
            part.data, at = mapped[at : at + part.data.nbytes], at + part.data.nbytes
