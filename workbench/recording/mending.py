"""Repair a recording after a KeyboardInterrupt: keep complete rows and steps, and make memory consistent.

The user's code may catch the interrupt and continue to be recorded. An interrupt can arrive wherever Python checks for one.
"""

from __future__ import annotations

from collections import Counter

from .recording import BYTES, EVENT, HOLDERS, NUMBER, Recording, Watch


def mend(r: Recording) -> None:
    """Roll back the row or step during which the recorder was interrupted."""
    count = r.count
    edges = r.edge_end[count - 1] if count else 0
    for column in (
        r.ops, r.kind, r.scope, r.code, r.lasti, r.shape, r.dtype, r.bytes, r.saved, r.grad, r.note, r.attrs, r.ref, r.begun, r.took,
        r.edge_end,
    ):  # fmt: skip
        del column[count:]
    for column in (r.source, r.target, r.slot):
        del column[edges:]
    for column in (r.step_begun, r.step_took, r.step_ops):
        del column[len(r.steps) :]
    r.step_marks.pop(len(r.steps), None)
    r.step = -1
    for time in [time for time, row in r.times.items() if row >= count]:
        r.free(time)
        del r.times[time]
    for identity in [identity for identity, row in r.rows.items() if row >= count]:
        del r.rows[identity]
    for table in (r.names, r.versions, r.marks, r.gpu):
        table.pop(count, None)
    r.unhold(count)
    _count_holders(r)


def _count_holders(r: Recording) -> None:
    """Recount the holders of each memory block, and add events to match."""
    for block in r.blocks.values():
        block[HOLDERS] = 0
    watches = {id(watch): watch for watch in (*r.ref, *r.watches.values(), *r.dead)}
    for watch in watches.values():
        if isinstance(watch, Watch) and watch.block is not None:
            watch.block[HOLDERS] += 1
    for saving in r.savings.values():
        for key in saving.keys:
            r.blocks[key][HOLDERS] += 1
    told: Counter[int] = Counter()
    for number, delta in zip(r.events[::3], r.events[1::3], strict=True):
        told[number] += delta
    for key, block in list(r.blocks.items()):
        if not block[HOLDERS] or not told[block[NUMBER]]:  # without holders, or without events
            del r.blocks[key]
    alive = {block[NUMBER] for block in r.blocks.values()}
    for number, nbytes in told.items():
        if nbytes and number not in alive:
            r.events.frombytes(EVENT(number, -nbytes, r.count))
    r.now = sum(block[BYTES] for block in r.blocks.values())
