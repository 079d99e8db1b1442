"""What memory is needed when, and why: the memory view's answer, read off a recording."""

from __future__ import annotations

from typing import Any

import numpy

from engine import inplace

from .. import protocol
from ..graph import Graph, dtype_name
from ..inspector import bytes_text, shape_text
from ..recording import BYTES, ROW, Recording
from ..source import Sources

MOST = 200  # holdings that are told
POINTS = 4000  # of the timeline
CATEGORIES = ("parameter", "gradient", "activation", "saved", "optimizer", "input", "other")


def answer(recording: Recording, re: int | None, graph: Any) -> tuple[protocol.Memory, list[bytes]]:
    """The memory of the recorded program now and over its events. Bytes that only the recording holds are told apart."""
    r = recording
    found = holdings(r, graph)
    totals = dict.fromkeys(CATEGORIES, 0)
    for holding in found:
        totals[holding.category] += holding.bytes
    facts = [protocol.Fact(category, bytes_text(total)) for category, total in totals.items() if total]
    facts.append(protocol.Fact("kept only by the recording", bytes_text(_only_kept(r))))
    line = timeline(r)
    buffer = protocol.Buffer(0, "float64", list(line.shape))
    message = protocol.Memory(re, r.name, r.now, r.peak, r.peak_row, buffer, facts, sorted(found, key=lambda h: -h.bytes)[:MOST])
    return message, [line.astype("<f8").tobytes()]


def timeline(recording: Recording) -> numpy.ndarray:
    """(n, 2): event number and live bytes after it. Long ones keep the highest point of each stretch, so the peak is never lost."""
    live = numpy.array(recording.timeline, numpy.float64)
    events = numpy.arange(1, len(live) + 1, dtype=numpy.float64)
    if len(live) > POINTS:
        edges = numpy.arange(POINTS) * len(live) // POINTS
        highest = numpy.maximum.reduceat(live, edges)
        return numpy.stack([events[edges], highest], 1)
    return numpy.stack([events, live], 1)


def holdings(recording: Recording, graph: Any) -> list[protocol.Holding]:
    """Every block of memory that is needed now, each with the reasons."""
    r = recording
    savers = _savers(r)
    gradients = {id(b): row for row, b in _gradient_blocks(r)}
    alive: dict[int, list[int]] = {}
    for row in range(r.count):
        tensor = r.tensor(row)
        if tensor is not None:
            alive.setdefault(id(inplace.storage(tensor.array)), []).append(row)
    found = []
    for key, block in list(r.blocks.items()):
        row = block[ROW]
        rows = alive.get(key, [])
        shown = rows[0] if rows else row
        of = gradients.get(id(block))
        why = []
        if of is not None:
            why.append(f"the gradient of {_called(r, of)}")
        for saver, slot in savers.get(id(block), [])[:3]:
            why.append(f"saved by {r.op_name(saver)} #{saver}" + (f" for {slot}" if slot else ""))
        more = len(savers.get(id(block), [])) - 3
        if more > 0:
            why.append(f"and by {more} more")
        named = [r.names[at] for at in rows if r.names.get(at)]
        if named:
            why.append(("a parameter: " if r.kind[rows[0]] == "parameter" else "held by the variable ") + ", ".join(named))
        elif rows:
            why.append("held by a tensor that the program still has")
        category = _category(r, shown, of, bool(savers.get(id(block))), bool(rows))
        name = f"{_called(r, of)}.grad" if of is not None else r.names.get(shown, "")
        told = shown if of is None else of
        found.append(
            protocol.Holding(
                told,
                name,
                list(r.shape[told]),
                dtype_name(r.dtype[told]),
                block[BYTES],
                category,
                "; ".join(why),
                graph.site(shown),  # type: ignore[arg-type]
            )  # fmt: skip
        )
    return found


def _category(r: Recording, row: int, gradient_of: int | None, saved: bool, alive: bool) -> str:
    if gradient_of is not None:
        return "gradient"
    kind = r.kind[row]
    if kind in ("parameter", "leaf"):
        return "parameter"
    if kind == "input":
        return "input"
    if saved:
        return "saved"
    return "activation" if alive else "other"


def _savers(r: Recording) -> dict[int, list[tuple[int, str]]]:
    """Block -> rows of the ops whose nodes save it, and for which gradient."""
    found: dict[int, list[tuple[int, str]]] = {}
    for time, blocks in list(r.savings.items()):
        row = r.times.get(time, -1)
        for block, place in blocks:
            found.setdefault(id(block), []).append((row, _for_which(r.ops[row], place) if row >= 0 else ""))
    return found


def _for_which(op: Any, place: int) -> str:
    """The rules that name the saved array: "d_other"."""
    if getattr(op, "variadic", False) or not getattr(op, "rules", ()):
        return ""
    names = [f"d_{name}" for name, rule in zip(op.inputs, op.rules, strict=False) if rule is not None and place in rule.keeps]
    return " and ".join(names)


def _gradient_blocks(r: Recording) -> list[tuple[int, list]]:
    found = []
    for row, held in list(r.gradients.items()):
        gradient = held()
        if gradient is not None:
            block = r.blocks.get(id(inplace.storage(gradient.array)))
            if block is not None:
                found.append((row, block))
    return found


def _only_kept(r: Recording) -> int:
    needed = {id(block) for block in r.blocks.values()}
    kept = {id(block): block for block in list(r._held.values())}
    return sum(block[BYTES] for key, block in kept.items() if key not in needed)


def _called(r: Recording, row: int) -> str:
    return r.names.get(row) or f"#{row}"


def report(recording: Recording, sources: Sources | None = None) -> str:
    """The memory view as text."""
    message, _ = answer(recording, None, Graph(recording, sources))
    lines = [f"{bytes_text(message.live)} needed now, {bytes_text(message.peak)} at the peak"]
    if message.peak_node >= 0:
        lines[0] += f" (during {recording.op_name(message.peak_node) or _called(recording, message.peak_node)} #{message.peak_node})"
    lines += [f"  {fact.label}: {fact.text}" for fact in message.by_category]
    for holding in message.holdings[:20]:
        shape = shape_text(holding.shape)
        lines.append(
            f"{bytes_text(holding.bytes):>9}  {holding.category:10} {holding.name or f'#{holding.node}':16} {shape:12} {holding.why}"
        )
    return "\n".join(lines)
