"""What a node's box shows: the value of a scalar, the health of a tensor, what the tape saves, and whose memory it shares."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy

from engine.backends.batch import Batched
from engine.backends.coo import Coo

from .. import inspector
from ..protocol import NodeFace, Summary
from ..recording.recording import Recording

MOST = 1 << 16  # elements of one tensor that are counted for its box
BUDGET = 1 << 21  # the same for all tensors of one request: about 10 ms
_VIEW = re.compile(r"view of #(\d+)")


def faces(recording: Recording, rows: list[int]) -> list[NodeFace]:
    """The faces of these rows. For arrays on a GPU the host waits once."""
    arrays, shown, left = {}, {}, BUDGET
    for row in rows:
        array = recording.value(row)
        if isinstance(array, (Batched, Coo)):
            array = inspector.whole(array)
        arrays[row] = array
        size = getattr(array, "size", 1)
        if hasattr(array, "dtype") and (size == 1 or size <= min(MOST, left)):
            shown[row] = array
            left -= size if size > 1 else 0
    there = [row for row, array in shown.items() if inspector.on_gpu(array)]
    known = dict(zip(there, inspector.summaries([shown[row] for row in there]), strict=True))
    found = []
    for row in rows:
        array = shown.get(row)
        if row in known:
            value, health = _of_gpu(known[row], array)
        else:
            value = scalar(arrays[row])
            health = counts(array) if isinstance(array, numpy.ndarray) and array.size > 1 else []
        view = _VIEW.match(recording.note[row])
        base = int(view[1]) if view else -1
        found.append(NodeFace(row, value, health, *saves(recording, row), base, recording.versions.get(row, 0)))
    return found


def _of_gpu(known: Summary, array: Any) -> tuple[int | float | bool | str | None, list[int]]:
    """The value of a scalar, or the counts of a larger tensor, from its summary."""
    if array.ndim == 0 and known.values:
        value = known.values[0]
        return (value if not isinstance(value, str) else value if value in ("nan", "inf", "-inf") else None), []
    real = array.size > 1 and array.dtype.kind in "fiu"
    return None, [known.nan, known.pos_inf + known.neg_inf, known.negative, known.zero, known.positive] if real else []


def scalar(value: Any) -> int | float | bool | str | None:
    """The value of a scalar, fit for JSON; None for anything else."""
    if getattr(value, "shape", ()) != ():
        return None
    number = inspector.host(value).item() if hasattr(value, "dtype") else value
    if isinstance(number, float) and not math.isfinite(number):
        return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
    return number if isinstance(number, (bool, int, float)) else None


def counts(array: numpy.ndarray) -> list[int]:
    """Count the NaN, infinite, negative, zero and positive elements; empty if the dtype is not real."""
    if array.dtype.kind not in "fiu":
        return []
    nan, inf = (int(numpy.count_nonzero(test(array))) for test in (numpy.isnan, numpy.isinf)) if array.dtype.kind == "f" else (0, 0)
    with numpy.errstate(invalid="ignore"):
        minus, zero = int(numpy.count_nonzero(array < 0)), int(numpy.count_nonzero(array == 0))
    if inf:
        minus -= int(numpy.count_nonzero(numpy.isneginf(array)))
    return [nan, inf, minus, zero, int(array.size) - nan - inf - minus - zero]


def saves(recording: Recording, row: int) -> tuple[list[str], list[int], bool]:
    """What the tape saves for the op's backward: descriptions, input slots, and whether the result is saved.

    These are the slots that the rules of inputs that need a gradient name.
    """
    op = recording.ops[row]
    rules, slots = getattr(op, "rules", None) or (), getattr(op, "slots", ())
    if not recording.saved[row] or getattr(op, "variadic", False):
        return [], [], False
    sources = {slot: source for source, slot in recording.inputs(row)}
    kept: set[int] = set()
    for slot, rule in enumerate(rules):
        if rule is not None and slot in sources and recording.grad[sources[slot]]:
            kept |= rule.keeps
    inputs = [place for place in sorted(kept) if place < len(op.inputs)]
    words = [f"{slots[place]} (input {place})" for place in inputs]
    words += [f"{slots[place]} ({'the result' if slots[place] == 'out' else 'on the way'})" for place in sorted(kept - {*inputs})]
    return words, inputs, any(slots[place] in op.outputs for place in kept)
