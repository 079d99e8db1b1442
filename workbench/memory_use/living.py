"""The live set: the memory blocks alive now or after a given event, with the reasons for each and when it was freed."""

from __future__ import annotations

from typing import Any

import numpy

from engine.core import versions

from .. import protocol
from ..graph.graph import dtype_name
from ..recording.recording import KEY, Recording
from . import words
from .log import CATEGORIES, GRADIENT, OPTIMIZER, PARAMETER, Log

MOST = 200  # holdings listed at most


def moment(log: Log, re: int | None, graph: Any, event: int) -> protocol.Moment:
    """The blocks alive after an event; -1 is the peak. Raises IndexError if there is no such event."""
    r = log.recording
    event = log.peak_event if event < 0 else event
    if not 0 <= event < log.count:
        raise IndexError(f"There is no event {event} in this recording; it has {log.count}.")
    blocks = log.alive_after(event)
    row = int(log.rows_of_events()[event])
    found = _told(log, graph, blocks, event, {})
    live = int(log.live[event])
    site = graph.site(row) if row >= 0 else -1
    text, rest = words.happened(log, event, row), live - sum(h.bytes for h in found)
    return protocol.Moment(re, r.name, event, log.count, text, row, site, live, found, len(blocks), rest)


def now(log: Log, graph: Any) -> tuple[list[protocol.Holding], int]:
    """The largest blocks alive now, and the number of all of them."""
    blocks = log.alive_after(log.count)
    return _told(log, graph, blocks, log.count, holders(log.recording)), len(blocks)


def holders(r: Recording) -> dict[int, list[int]]:
    """Map the identity of each storage to the rows of the tensors on it that are still alive in the program."""
    found: dict[int, list[int]] = {}
    foreign = r.foreign
    for key, row in () if foreign is None else sorted(foreign.alive()):
        found.setdefault(key, []).append(row)
    for row in range(r.count) if foreign is None else ():
        tensor = r.tensor(row)
        if tensor is not None and hasattr(tensor, "array"):
            found.setdefault(id(versions.storage(tensor.array)), []).append(row)
    return found


def _told(log: Log, graph: Any, blocks: Any, event: int, held: dict[int, list[int]]) -> list[protocol.Holding]:
    """Describe the largest of these blocks: the nodes that save each after the event, and the tensors that hold it, if known."""
    r = log.recording
    largest = blocks[numpy.argsort(-log.bytes[blocks], kind="stable")[:MOST]]
    categories = log.categories_at(event, largest)
    saving = _savers(log, largest, event)
    keys = {log.place_of(block): block[KEY] for block in list(r.blocks.values())} if held else {}
    rows_of_events = log.rows_of_events()
    found = []
    for at, category in zip(largest.tolist(), categories.tolist(), strict=True):
        row, tensors = int(log.row[at]), held.get(keys.get(at, 0), [])
        why = _why(log, at, row, category, saving.get(at, []), tensors)
        name = r.names.get(tensors[0] if tensors else row, "")
        if category == GRADIENT:
            name = words.gradient(log, at)
        if category == OPTIMIZER:
            name = words.kept_by_optimizer(log, at)
        if words.internal(log, at):
            name = words.kept_by_op(log, at)
        known = 0 <= row < log.rows and not words.internal(log, at)  # otherwise the row's shape is not the block's
        shape = list(r.shape[row]) if known else []
        dtype = dtype_name(r.dtype[row]) if known else ""
        freed = int(log.died[at]) if log.died[at] < log.count else -1
        last = int(rows_of_events[freed]) if freed >= 0 else -1
        found.append(
            protocol.Holding(
                int(log.numbers[at]),
                row if row < log.rows else -1,
                name,
                shape,
                dtype,
                int(log.bytes[at]),
                CATEGORIES[category],  # type: ignore[arg-type]
                "; ".join(why),
                graph.site(row) if 0 <= row < log.rows else -1,
                freed,
                words.place(log, freed, last) if freed >= 0 else "",
                graph.site(last) if last >= 0 else -1,
            )  # fmt: skip
        )
    return found


def _savers(log: Log, blocks: Any, event: int) -> dict[int, list[tuple[int, int]]]:
    """Map each block to the (row, index in `saved`) of the nodes that save it after the event."""
    at = numpy.flatnonzero((log.use_from <= event) & (event < log.use_to) & numpy.isin(log.use_block, blocks))
    found: dict[int, list[tuple[int, int]]] = {}
    for use in at.tolist():
        found.setdefault(int(log.use_block[use]), []).append((int(log.use_row[use]), int(log.use_place[use])))
    return found


def _why(log: Log, at: int, row: int, category: int, savers: list[tuple[int, int]], tensors: list[int]) -> list[str]:
    r, why = log.recording, []
    if category == GRADIENT:
        why.append("it waits for a backward step" if log.flowing[at] else f"the gradient of {words.called(r, row)}")
    if category == OPTIMIZER:
        why.append("kept by the optimizer from step to step")
    saving = list(dict.fromkeys(words.saved_by(r, saver, place) for saver, place in savers))
    why += [*saving[:3], *([f"and by {len(saving) - 3} more"] if len(saving) > 3 else [])]
    names = [name for at in tensors if (name := r.names.get(at))]
    if names:
        why.append(("a parameter: " if r.kind[tensors[0]] == "parameter" else "held by the variable ") + ", ".join(names))
    elif tensors and not (saving and r.foreign is not None):  # PyTorch's graph itself may be the holder
        why.append("held by a tensor that the program still has")
    if not why and category == PARAMETER:
        why.append("a parameter")
    return why
