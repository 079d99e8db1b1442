"""The memory events of a recording as columns: when each block was allocated and freed, its category, and which nodes saved it when.

`Recording.events` is a flat array with three integers per event, the cheapest format to record: the number of the block, the bytes
allocated or freed (negative), and the position: a row, or ~k for backward step k.
"""

from __future__ import annotations

from typing import Any

import numpy

from ..recording.recording import NUMBER, Recording

CATEGORIES = ("parameter", "gradient", "activation", "saved", "optimizer", "input", "temporary")
PARAMETER, GRADIENT, ACTIVATION, SAVED, OPTIMIZER, INPUT, TEMPORARY = range(len(CATEGORIES))
_ROLES = {"saved": SAVED, "flowing": GRADIENT, "gradient": GRADIENT}  # any other role is the optimizer's name for its state
_KINDS = {"parameter": PARAMETER, "leaf": PARAMETER, "input": INPUT}

Ints = numpy.ndarray


class Log:
    """A snapshot of a recording's memory events. All columns are NumPy arrays; a block is an index into them.

    A block counts from its first use: memory allocated before the recorded code ran appears with the first op that uses it.
    """

    def __init__(self, recording: Recording) -> None:
        r = self.recording = recording
        r.settle()
        events = _columns(r.events, 3)
        number, self.delta, self.where = events[:, 0], events[:, 1], events[:, 2]
        self.count = len(events)
        self.rows = r.count
        self.numbers, self.born, self.block = numpy.unique(number, return_index=True, return_inverse=True)
        self.bytes = self.delta[self.born]
        self.died = numpy.full(len(self.numbers), self.count + 1)  # past the last event: still alive
        deaths = numpy.ones(self.count, bool)
        deaths[self.born] = False
        at = numpy.flatnonzero(deaths)
        self.died[self.block[at]] = at
        self.row = self.where[self.born]  # the row that a block belongs to; for a gradient, the row that it is the gradient of
        self.category = numpy.empty(len(self.numbers), numpy.int8)
        self.flowing = numpy.zeros(len(self.numbers), bool)  # an intermediate gradient, as opposed to a tensor's .grad
        self._classify()
        uses = _columns(r.uses, 4)
        self.use_block = numpy.searchsorted(self.numbers, uses[:, 0])
        self.use_row = numpy.array([r.times.get(time, -1) for time in uses[:, 1].tolist()], numpy.int64)
        self.use_place = uses[:, 2]
        self.use_from = uses[:, 3] // 3 - 1  # saved after this event
        self.use_to = numpy.array([r.freed.get(time, 3 * self.count + 3) for time in uses[:, 1].tolist()], numpy.int64) // 3
        self.saved_from = numpy.full(len(self.numbers), self.count)
        self.saved_to = numpy.zeros(len(self.numbers), numpy.int64)
        numpy.minimum.at(self.saved_from, self.use_block, self.use_from)
        numpy.maximum.at(self.saved_to, self.use_block, self.use_to)
        self.live = numpy.cumsum(self.delta)
        self.now = int(self.live[-1]) if self.count else 0
        self.peak = int(self.live.max(initial=0))
        self.peak_event = int(self.live.argmax()) if self.count else -1

    def _classify(self) -> None:
        r, roles = self.recording, self.recording.roles
        kind, grad = r.kind, r.grad
        for at, (number, row) in enumerate(zip(self.numbers.tolist(), self.row.tolist(), strict=True)):
            role = roles.get(number)
            if role is not None:
                self.category[at], self.row[at] = _ROLES.get(role[0], OPTIMIZER), role[1]
                self.flowing[at] = role[0] == "flowing"
            elif 0 <= row < self.rows:
                self.category[at] = _KINDS.get(kind[row], ACTIVATION if grad[row] else TEMPORARY)
            else:  # the result of an op that was running when this was read
                self.category[at] = TEMPORARY

    def by_device(self) -> dict[str, Ints]:
        """Live bytes after each event on the CPU and on each GPU; empty for a program without a GPU. A gradient is where its tensor is."""
        if not self.recording.gpu:
            return {}
        gpu = numpy.array([self.recording.gpu.get(row, -1) for row in self.row.tolist()], numpy.int64)[self.block]
        live = {index: numpy.cumsum(numpy.where(gpu == index, self.delta, 0)) for index in numpy.unique(gpu).tolist()}
        return {"cpu" if index < 0 else f"cuda:{index}": one for index, one in live.items() if one.any()}

    def categories_at(self, event: int, blocks: Ints) -> Ints:
        """The categories of blocks after an event. An op's result is "saved" while a node of the tape keeps it for backward."""
        found = self.category[blocks].copy()
        saved = (self.saved_from[blocks] <= event) & (event < self.saved_to[blocks])
        found[saved & ((found == ACTIVATION) | (found == TEMPORARY))] = SAVED
        return found

    def bands(self) -> Ints:
        """Live bytes by category after each event, shape (events, 7)."""
        change = numpy.zeros((self.count + 1, len(CATEGORIES)), numpy.int64)
        numpy.add.at(change, (numpy.arange(self.count), self.category[self.block]), self.delta)
        own = (self.category == ACTIVATION) | (self.category == TEMPORARY)
        kept = numpy.flatnonzero(own & (self.saved_from < self.saved_to))
        begin = numpy.maximum(self.saved_from[kept], self.born[kept])
        end = numpy.minimum(numpy.minimum(self.saved_to[kept], self.died[kept]), self.count)
        for at, sign in ((begin, 1), (end, -1)):
            numpy.add.at(change, (at, numpy.full(len(at), SAVED)), sign * self.bytes[kept])
            numpy.add.at(change, (at, self.category[kept]), -sign * self.bytes[kept])
        return numpy.cumsum(change[:-1], axis=0)

    def alive_after(self, event: int) -> Ints:
        """The blocks alive after an event."""
        return numpy.flatnonzero((self.born <= event) & (event < self.died))

    def seconds(self) -> Ints | None:
        """The time of each event in seconds since the recording began; None if nothing was timed.

        Only ops and backward steps are timed: a block freed between two of them gets the end time of the first.
        """
        r = self.recording
        rows, steps = _ends(r.begun, r.took, self.rows), _ends(r.step_begun, r.step_took, len(r.steps))
        if not len(rows) or not numpy.isfinite(rows).any():
            return None
        made = numpy.zeros(self.count, bool)
        made[self.born] = True
        forward = numpy.clip(numpy.where(made, self.where, self.where - 1), 0, len(rows) - 1)
        found = rows[forward]
        if len(steps):
            backward = numpy.clip(~self.where, 0, len(steps) - 1)
            found = numpy.where(self.where < 0, steps[backward], found)
        return numpy.maximum.accumulate(numpy.fmax(found - r.began, 0.0))

    def rows_of_events(self) -> Ints:
        """The row of each event: the row made, the row of the backward step, or the row after which a block was freed; -1 if unknown."""
        r = self.recording
        made = numpy.zeros(self.count, bool)
        made[self.born] = True
        found = numpy.clip(numpy.where(made, self.where, self.where - 1), -1, self.rows - 1)
        back = self.where < 0
        steps = numpy.frombuffer(r.steps.tobytes(), f"i{r.steps.itemsize}")
        if back.any():
            at = ~self.where[back]
            found[back] = numpy.where(at < len(steps), steps[numpy.minimum(at, max(len(steps) - 1, 0))] if len(steps) else -1, -1)
        return found

    def place_of(self, block: list) -> int:
        """The index of a recording's block in the columns; -1 if the block is newer than this log."""
        at = int(numpy.searchsorted(self.numbers, block[NUMBER]))
        return at if at < len(self.numbers) and self.numbers[at] == block[NUMBER] else -1


def _columns(flat: Any, width: int) -> Ints:
    # a copy, because a view would keep the running cell from appending to the array
    return numpy.frombuffer(flat.tobytes(), numpy.int64)[: len(flat) // width * width].reshape(-1, width)


def _ends(begun: Any, took: Any, count: int) -> numpy.ndarray:
    begins, lasted = (numpy.frombuffer(column.tobytes(), numpy.float64)[:count] for column in (begun, took))
    n = min(len(begins), len(lasted))
    return begins[:n] + lasted[:n]
