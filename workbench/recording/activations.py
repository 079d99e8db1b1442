"""The health of activations: dead units, which are zero for every sample, and saturated outputs, where the slope is nearly zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from engine.core import devices

from .. import inspector
from ..inspector.numbers import real
from ..protocol import ActivationRow
from .recording import Recording

ROOM = 512 << 20  # bytes of results examined, the last calls first
# op -> the region where its slope is nearly zero; the limits for tanh and sigmoid are those of TensorBoard and torchlens
LIMITS = {
    "tanh": "|y| > 0.97",
    "softsign": "|y| > 0.97",
    "sigmoid": "y < 0.03 or y > 0.97",
    "hardsigmoid": "y = 0 or y = 1",
    "hardtanh": "at its least or its largest value",
    "relu6": "y = 6",
}
TRAINING = 4  # backward passes from which a recording counts as training
DYING = ("relu", "relu6", "threshold")  # constant over a half-line, where a unit can be stuck
# A healthy unit is 0 for about half of the samples: with fewer samples than this, one that is 0 for all proves nothing.
SAMPLES = 32
FEW = 0.25  # share of dead units from which a layer is flagged


@dataclass
class _Found:
    node: int
    units: int
    alive: Any  # bool (units,): nonzero for some sample of some call
    samples: int = 0  # per unit
    calls: int = 0
    size: int = 0
    zero: Any = 0  # counts; of values on a GPU, arrays there
    saturated: Any = 0


def activations(recording: Recording) -> tuple[list[ActivationRow], int]:
    """One row per activation function of each module, with all its calls combined; and the number of calls left out.

    In a recorded training run only the second half counts, to describe the units' present state. Calls whose values are gone are
    skipped, and so are the earliest calls if the results exceed `ROOM` bytes.
    """
    r = recording
    since = _trained(r)
    named = [row for row in range(since, r.count) if r.kind[row] == "op" and r.op_name(row).rstrip("_") in {*LIMITS, *DYING}]
    calls = [row for row in named if not _derives(r, row)]
    found: dict[tuple, _Found] = {}
    first, room = len(calls), ROOM
    while first and (room := room - r.bytes[calls[first - 1]]) >= 0:
        first -= 1
    for row in calls[first:]:
        y = r.value(row)
        if y is None or not y.size or y.dtype.kind == "c":
            continue
        op, axis = r.op_name(row).rstrip("_"), unit_axis(r, row)
        y = real(y)
        zero = y == 0
        others = tuple(i for i in range(y.ndim) if i != axis)
        alive = ~zero.all(axis=others) if axis is not None else ~zero.reshape(-1)
        key = (module_of(r, row), op, alive.size)
        one = found.setdefault(key, _Found(row, alive.size, inspector.library(y).zeros(alive.size, bool)))
        one.node, one.calls, one.size = row, one.calls + 1, one.size + y.size
        one.samples += y.size // alive.size
        one.alive |= alive
        one.zero += _count(zero)
        one.saturated += _count(saturated(op, y, r.attrs[row]))
    counts = [n for one in found.values() for n in (_count(one.alive), one.zero, one.saturated)]
    told = iter(inspector.host(inspector.library(counts[0]).stack(counts)).tolist() if counts else [])  # one wait for a GPU
    return [_row(module, op, one, next(told), next(told), next(told)) for (module, op, _), one in found.items()], first


def _derives(r: Recording, row: int) -> bool:
    """Whether the op ran inside a recorded backward pass: the tanh in a loss's derivative is no layer."""
    scope = r.scope[row]
    while scope >= 0:
        if (r.scopes[scope].kind, r.scopes[scope].name) == ("function", "backward"):
            return True
        scope = r.scopes[scope].parent
    return False


def _count(mask: Any) -> Any:
    return numpy.count_nonzero(mask) if isinstance(mask, numpy.ndarray) else devices.namespace(mask).count_nonzero(mask)


def _trained(r: Recording) -> int:
    """The first row of the second half of a training run; 0 if the recording has fewer than `TRAINING` passes."""
    passes = r.witness.passes
    return passes[len(passes) // 2 - 1].rows if len(passes) >= TRAINING else 0


def _row(module: str, op: str, one: _Found, alive: int, zero: int, flat: int) -> ActivationRow:
    dead = one.units - alive if op in DYING else 0
    saturated, flag = flat / one.size, ""
    if dead == one.units and one.units * one.samples >= SAMPLES:
        flag = "all dead"
    elif dead >= FEW * one.units and one.samples >= SAMPLES:
        flag = "dead units"
    elif saturated > 0.5:
        flag = "saturated"
    return ActivationRow(
        one.node, module, op, one.calls, one.samples, one.units, dead, zero / one.size, saturated, LIMITS.get(op, ""), flag
    )


def saturated(op: str, y: Any, attrs: dict) -> Any:
    """A bool mask of the shape of `y`: where the slope is nearly zero according to LIMITS."""
    if op in ("tanh", "softsign"):
        return abs(y) > 0.97
    if op == "sigmoid":
        return (y < 0.03) | (y > 0.97)
    if op == "hardsigmoid":
        return (y <= 0) | (y >= 1)
    if op == "hardtanh":
        return (y <= attrs.get("min_val", -1.0)) | (y >= attrs.get("max_val", 1.0))
    if op == "relu6":
        return y >= 6
    return inspector.library(y).zeros(y.shape, bool)


def unit_axis(recording: Recording, row: int) -> int | None:
    """The axis of the units: channels after a convolution, else the last one; None for a vector of one sample's units.

    It follows from the ops that made the input; without such an op, it is axis 1 for four or more dimensions, else the last axis.
    """
    ndim, at = len(recording.shape[row]), row
    if ndim < 2:
        return None
    for _ in range(6):
        sources = [s for s, slot in recording.inputs(at) if slot == 0 and recording.kind[s] == "op"]
        if not sources:
            break
        at = sources[0]
        name = recording.op_name(at)
        if "conv" in name:
            return 0 if ndim == (2 if "1d" in name else 3) else 1  # without a batch the channels come first
        if name in ("linear", "matmul", "addmm", "einsum"):
            return ndim - 1
    return 1 if ndim >= 4 else ndim - 1


def module_of(recording: Recording, row: int) -> str:
    """The path of the module that the op ran in; "" outside all modules."""
    scope = recording.scope[row]
    while scope >= 0:
        entered = recording.scopes[scope]
        if entered.kind == "module":
            return entered.name
        scope = entered.parent
    return ""
