"""A tensor over time: over the steps that wb.history recorded, or over the iterations of a loop in one recording."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy

from .. import inspector
from ..inspector.statistics import Wanted, statistics
from ..protocol import Buffer, Series, TensorSeries
from ..recording.activations import module_of
from ..recording.recording import Recording
from .history import History, ParameterHistory, knowing

MOST = 256  # points
ROOM = 256 << 20  # bytes read to compute them
NUMBERS = ("mean", "std", "min", "max", "norm")

Gradient = Callable[[int], tuple[Any, str]]


class _Buffers:
    """Collects arrays as binary buffers for a message."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def add(self, values: Any, dtype: Literal["float64", "int32"]) -> Buffer:
        array = numpy.ascontiguousarray(values, "<f8" if dtype == "float64" else "<i4")
        self.parts.append(array.tobytes())
        return Buffer(len(self.parts) - 1, dtype, list(array.shape))


def series(
    recording: Recording, row: int, what: Literal["value", "grad"], gradient: Gradient, re: int | None = None
) -> tuple[TensorSeries, list[bytes]]:
    """The series of one tensor and its buffers. If there is none, the message's `missing` says how to get one."""
    buffers = _Buffers()
    name = recording.names.get(row, "")
    known = _known(recording, row)
    if known is not None and len(known[0].steps) > 1:
        history, its = known
        found = _of_history(history, its, buffers)
        return TensorSeries(re, recording.name, row, what, its, "step", found, f"wb.history: {history.note}", ""), buffers.parts
    turns = iterations(recording, row)
    if len(turns) > 1:
        found, counted = _of_turns(recording, turns, what, gradient, buffers)
        if found is not None:
            return TensorSeries(re, recording.name, row, what, name, "iteration", [found], counted, ""), buffers.parts
    missing = (
        "There is nothing to follow it by. Call h = wb.history(model, optimizer) before the training loop: parameters, gradients, updates "
        "and activations are then shown over the steps. What a loop of the recorded cell computes is shown over its turns."
    )
    return TensorSeries(re, recording.name, row, what, name, "step", [], "", missing), []


def _known(recording: Recording, row: int) -> tuple[History, str] | None:
    """The history that records this parameter, or the module that returned this row, and the name there; None if there is none."""
    tensor = recording.tensor(row)
    if tensor is not None and (found := knowing(tensor)) is not None:
        return found
    scope = recording.scope[row]
    if recording.kind[row] != "op" or scope < 0 or recording.scopes[scope].kind != "module":
        return None
    if any(recording.scope[later] == scope for later in range(row + 1, min(row + 200, recording.count))):
        return None  # not the module's output
    subject = recording.scopes[scope].subject
    for held in recording.modules:
        model = held()
        for module in () if model is None else model.modules():
            if id(module) == subject:
                return knowing(module)
    return None


def _of_history(history: History, name: str, buffers: _Buffers) -> list[Series]:
    known = history[name]
    if isinstance(known, ParameterHistory):
        quantities = [("value", known.weight, None), ("gradient", known.grad, None), ("update", known.update, known.ratio)]
    else:
        quantities = [("activation", known.activation, None)]
    found = []
    for what, quantity, ratio in quantities:
        if not quantity.present.any():
            continue
        at = quantity.present
        bad = sum(numpy.nan_to_num(getattr(quantity, kind)[at]) for kind in ("nan", "pos_inf", "neg_inf"))
        h = quantity.histogram
        numbers = [buffers.add(getattr(quantity, number)[at], "float64") for number in NUMBERS]
        found.append(
            Series(
                what,
                buffers.add(history.steps[at], "int32"),
                *numbers,
                buffers.add(bad, "int32"),
                buffers.add(h.low[at], "float64"),
                buffers.add(h.high[at], "float64"),
                buffers.add(h.counts[at], "int32"),
                None if ratio is None else buffers.add(ratio[at], "float64"),
            )  # fmt: skip
        )
    return found


def iterations(recording: Recording, row: int) -> list[int]:
    """The rows made by the same instruction, op and module as `row`, including it: the iterations of a loop, in order."""
    r = recording
    if r.kind[row] != "op" or r.code[row] is None:
        return [row]
    key = (id(r.code[row]), r.lasti[row], r.op_name(row), module_of(r, row))
    alike = [
        at
        for at in range(r.count)
        if r.code[at] is r.code[row] and r.lasti[at] == key[1] and r.op_name(at) == key[2] and module_of(r, at) == key[3]
    ]
    return alike


def _of_turns(
    recording: Recording, turns: list[int], what: Literal["value", "grad"], gradient: Gradient, buffers: _Buffers
) -> tuple[Series | None, str]:
    stride = max(-(-len(turns) // MOST), -(-sum(recording.bytes[row] for row in turns) // ROOM))
    at, arrays = [], []
    for number in range(0, len(turns), stride):
        row = turns[number]
        array = gradient(row)[0] if what == "grad" else recording.value(row)
        if array is not None and getattr(array, "size", 0):
            at.append(number)
            arrays.append(array)
    if len(arrays) < 2:
        return None, ""
    rows = [(one.summary, one.histogram) for one in statistics(arrays, Wanted(histogram=True))]
    numbers = [buffers.add([_number(getattr(s, number)) for s, _ in rows], "float64") for number in NUMBERS]
    bad = [s.nan + s.pos_inf + s.neg_inf for s, _ in rows]
    ends = [(math.nan, math.nan) if h is None else (h.low, h.high) for _, h in rows]
    counts = [[0] * inspector.BINS if h is None else h.counts for _, h in rows]
    found = Series(
        "gradient" if what == "grad" else "value", buffers.add(at, "int32"), *numbers, buffers.add(bad, "int32"),
        buffers.add([low for low, _ in ends], "float64"), buffers.add([high for _, high in ends], "float64"),
        buffers.add(counts, "int32"), None,
    )  # fmt: skip
    gone = len(range(0, len(turns), stride)) - len(rows)
    told = f"{inspector.count_text(len(turns), 'turn')} of a loop in this recording"
    told += f", one in {stride} shown" if stride > 1 else ""
    return found, told + (f"; of {gone} the values no longer exist." if gone else ".")


def _number(x: float | None) -> float:
    return math.nan if x is None else x
