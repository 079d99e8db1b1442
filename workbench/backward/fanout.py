"""The gradient of a node with several consumers as a sum, g = g₁ + g₂ + ..., with what has arrived and what is still to come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.core import tape

from .stepper import Stepper


@dataclass
class Addend:
    """The contribution of one consumer to the node."""

    consumer: int  # row; -1 for the start of the pass
    slot: int  # input slot of the consumer
    name: str
    place: int  # the consumer's step, 1-based; 0 for the start
    state: str  # "arrived", "to come", "none" (the consumer got no gradient), "let go" (the record did not keep the array)
    gradient: Any = None  # the array, if it has arrived


@dataclass
class FanOut:
    """The addends of one row in the order in which they arrive, and their sum so far."""

    row: int
    addends: list[Addend]
    total: Any = None

    @property
    def sentence(self) -> str:
        """The sum in words, such as "the sum of 2 addends, from mul #7, add #9; still to come from exp #3"."""
        there = [a.name for a in self.addends if a.state in ("arrived", "let go")]
        coming = [a.name for a in self.addends if a.state == "to come"]
        parts = [f"the sum of {len(there)} addends, from {', '.join(there)}" if len(there) > 1 else f"from {there[0]}" if there else ""]
        parts.append(f"still to come from {', '.join(coming)}" if coming else "")
        return "; ".join(p for p in parts if p) or "no gradient arrives here"


def fan_out(stepper: Stepper, row: int) -> FanOut:
    """The addends of a row's gradient at the current step."""
    told = getattr(stepper, "fan_out", None)  # a record of another library's pass
    if told is not None:
        return told(row)
    recording = stepper.recording
    addends: list[Addend] = []
    total: Any = None
    targets = {id(node) for node, at in zip(stepper.nodes, stepper.plan, strict=True) if at == row}
    for i, (node, at) in enumerate(zip(stepper.nodes, stepper.plan, strict=True)):
        for slot, source in enumerate(node.inputs):
            if source is None or id(_step(source)) not in targets:
                continue
            addend = Addend(at, slot, recording.called(at) + _which(node, slot), i + 1, "to come")
            if i < stepper.index:
                taken = stepper.taken[i] if i < len(stepper.taken) else None
                if taken is None:
                    addend.state = "none"
                elif slot < len(taken.gradients):
                    addend.gradient = taken.gradients[slot]
                    addend.state = "none" if addend.gradient is None else "arrived"
                    if addend.gradient is not None and (total is None or total.shape == addend.gradient.shape):
                        total = addend.gradient if total is None else total + addend.gradient
                else:
                    addend.state = "let go"
            addends.append(addend)
    if any(id(_step(root)) in targets for root in stepper.roots):
        own = next((t for t in stepper.taken[: stepper.index] if t is not None and id(t.node) in targets), None)
        whole = None if own is None or isinstance(own.upstream, list) else own.upstream
        seed = whole if whole is None or total is None else whole - total
        addends.insert(0, Addend(-1, 0, "the start of the pass", 0, "arrived" if stepper.index else "to come", seed))
        total = whole
    return FanOut(row, addends, total)


def _step(node: Any) -> Any:
    """The node at whose step the gradient is used; for one of several results, the op itself."""
    return node.inputs[0] if isinstance(node, tape.Node) and node.op.picks else node


def _which(node: Any, slot: int) -> str:
    """The input of the consumer, if it takes the same node twice, as in x * x."""
    same = [i for i, source in enumerate(node.inputs) if source is node.inputs[slot]]
    return f" (input {slot + 1})" if len(same) > 1 else ""
