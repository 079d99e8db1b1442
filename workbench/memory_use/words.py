"""Phrases for rows, events and saved tensors in the memory view."""

from __future__ import annotations

from typing import Any

from ..base.readable import amid
from ..recording.recording import Recording
from .log import CATEGORIES, GRADIENT, OPTIMIZER, Log


def called(r: Recording, row: int) -> str:
    """The name of a row in sentences; "something" if there is no row."""
    return r.called(row) if row >= 0 else "something"


def for_which(op: Any, place: int) -> str:
    """The derivative rules that use the saved array, such as "d_other"; "" if the op does not declare them."""
    if getattr(op, "variadic", False) or not getattr(op, "rules", ()):
        return ""
    return " and ".join(f"d_{name}" for name, rule in zip(op.inputs, op.rules, strict=False) if rule is not None and place in rule.keeps)


def saving(maker: str, slot: str) -> str:
    """The op that saves an array and the gradient it is for: "saved by mul, line 3, for d_other"."""
    return f"saved by {amid(maker)} for {slot}" if slot else f"saved by {maker}"


def gradient(log: Log, block: int) -> str:
    """The name of a gradient: a tensor's .grad, or an intermediate gradient of the pass."""
    own = called(log.recording, int(log.row[block]))
    return f"the gradient on its way to {own}" if log.flowing[block] else f"{own}.grad"


def kept_by_optimizer(log: Log, block: int) -> str:
    """The name of an optimizer's state, such as "exp_avg of fc.weight"."""
    name = log.recording.roles[int(log.numbers[block])][0]
    row = int(log.row[block])
    return f"{name} of {called(log.recording, row)}" if row >= 0 else name


def internal(log: Log, block: int) -> bool:
    """Whether the block belongs to no tensor but is kept by an op's node, such as the probabilities of a cross entropy."""
    return log.recording.roles.get(int(log.numbers[block]), ("",))[0] == "saved"


def kept_by_op(log: Log, block: int) -> str:
    """The name of an internal block: "kept by cross_entropy, line 7"."""
    return f"kept by {log.recording.maker(int(log.row[block]))}"


def saved_by(r: Recording, row: int, place: int) -> str:
    """The op that saves an array, and the gradient it is for: "saved by mul, line 3, for d_other"."""
    if row < 0:
        return "saved by a node that is not in this recording"
    return saving(r.maker(row), for_which(r.ops[row], place))


def place(log: Log, event: int, row: int) -> str:
    """The position of an event in the program, such as "in the backward step of tanh, line 4"."""
    r = log.recording
    if log.where[event] < 0:
        return "in a backward step" if row < 0 else f"in the backward step of {r.maker(row)}"
    if log.where[event] >= log.rows and not r.live:
        return "after the last recorded op"
    return "at the beginning" if row < 0 else f"after {r.maker(row)}"


def happened(log: Log, event: int, row: int) -> str:
    """Describe an event as a sentence without a full stop."""
    r, block = log.recording, log.block[event]
    own, category = int(log.row[block]), int(log.category[block])
    what = gradient(log, block) if category == GRADIENT else called(r, own)
    if log.born[block] != event:
        return f"{what} was freed {place(log, event, row)}"
    if category == OPTIMIZER:
        return f"the optimizer began to keep {kept_by_optimizer(log, int(block))}"
    if category == GRADIENT:
        return f"{what} came {place(log, event, row)}"
    if r.op_name(own):
        return f"{r.op_name(own)} made {r.names[own]}" if r.names.get(own) else f"{r.called(own)} ran"
    return f"{what}, {CATEGORIES[category]}, was first used"
