"""Describe a step of a backward pass: its rule with live values, what each input gains, and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from .. import protocol
from ..base.readable import amid
from ..formulas import typeset
from ..formulas.typeset import Operand
from ..inspector import host, number_text, summaries
from ..recording.recording import Recording

if TYPE_CHECKING:
    from .stepper import Stepper, Taken


def describe(stepper: Stepper, taken: Taken) -> protocol.Step:
    """Create the message of a step that the pass has taken."""
    r, node, place = stepper.recording, taken.node, taken.place
    row = stepper.plan[place - 1]
    upstream = joined(taken.upstream)
    site = stepper.graph.site(row) if row >= 0 else -1
    if node.op is None:
        leaf = operand(r, row, node)
        name = leaf.name or (r.called(row) if row >= 0 else "a leaf")
        own = f"{name}.grad" if leaf.name else "its .grad"
        mine = next((grad for held, grad, _ in taken.changed if held is node.tensor), None)
        arrived, *told = summaries([upstream, *([] if mine is None else [mine.array, mine.array + _conj(upstream)])])
        was, now = told or (None, arrived)
        now = now if taken.changed else None
        if node.tensor() is None:
            end = "is dropped, because the tensor no longer exists"
        elif not taken.changed:
            end = f"is complete; {own} stays as it is"
        elif was is None or now is None:
            end = f"is stored in {own}"
        else:
            end = f"is added to {own}, which was {size_text(was)} and is now {size_text(now)}"
        sentence = f"Step {place} of {stepper.total}, accumulate: the gradient of {name} ({size_text(arrived)}) {end}."
        rule = typeset.accumulation(leaf, upstream)
        return protocol.Step(place, row, "accumulate", rule, arrived, [], site, sentence, was, now)
    operands = _operands(r, row, node)
    output = operand(r, row, node)
    attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__")}
    names = typeset.input_names(node.op, len(node.inputs))
    forward = typeset.forward(node.op, attrs, operands, output)
    contributions, told = [], []
    gained_by = [(i, *one) for i, one in enumerate(zip(node.inputs, taken.gradients, taken.totals, strict=False)) if one[2] is not None]
    sums = [total for _, _, g, (total, _) in gained_by if total is not g]
    arrived, *found = summaries([upstream, *[g for _, _, g, _ in gained_by], *sums])
    later = iter(found[len(gained_by) :])
    for (i, source, g, (total, addends)), gained in zip(gained_by, found, strict=False):
        target = r.row_of(source)
        unbroadcast = typeset.broadcast_axes(node.op, upstream.shape, source.shape or ())
        rule = typeset.backward(node.op, attrs, operands, output, i, upstream, g)
        now = gained if total is g else next(later)
        contributions.append(protocol.Contribution(target, names[i], gained, now, addends, unbroadcast, rule))
        told.append(gain_text(r, target, names[i], gained, now if addends > 1 else None))
    where = f" at {place_text(stepper.graph.sites[site])}" if site >= 0 else ""
    if row >= 0 and r.note[row].startswith("derivative of "):
        where += f", the {r.note[row].partition(';')[0]}"
    sentence = f"Step {place} of {stepper.total}, {node.op.name}{where}: {gains(told)}."
    return protocol.Step(place, row, node.op.name, forward, arrived, contributions, site, sentence)


def _operands(r: Recording, row: int, node: Any) -> list[Operand | None]:
    """The op's inputs as operands of a formula. Inputs that need no gradient have no node; only the recording may know them."""
    found: list[Operand | None] = [None if source is None else operand(r, r.row_of(source), source) for source in node.inputs]
    recorded = {slot: source for source, slot in r.inputs(row)} if row >= 0 else {}
    needed = () if node.op.variadic else node.op.inputs
    for i, known in enumerate(found):
        if known is None and i in recorded:
            found[i] = operand(r, recorded[i])
        elif known is None and i < len(needed) and needed[i] not in getattr(node.op, "optional", {}):
            found[i] = Operand("", (), None, ("unknown", i))
    return found


def operand(recording: Recording, row: int, node: Any = None) -> Operand:
    """The operand of a formula for a row. A value that was overwritten is left out, as it is no longer the one used."""
    others = recording.names.values()
    if row < 0:
        return Operand("", tuple(node.shape or ()) if node is not None else (), None, id(node), others=others)
    if recording.kind[row] == "constant":
        value = recording.kept.get(row)
        return Operand("", (), value, row, number=isinstance(value, (int, float, complex, numpy.number)))
    value = None if recording.overwritten(row) else recording.value(row)
    return Operand(recording.names.get(row, ""), recording.shape[row], value, row, others=others)


def joined(grad: Any) -> Any:
    """Concatenate what arrived at an op with several results into one array."""
    if not isinstance(grad, list):
        return grad
    there = [g for g in grad if g is not None]
    return there[0] if len(there) == 1 else numpy.concatenate([host(g).reshape(-1) for g in there])


def gain_text(r: Recording, target: int, called: str, gained: protocol.Summary, now: protocol.Summary | None) -> str:
    """What an input gained, by its name or op, or as the op calls it (`called`); `now` is the sum if there were earlier gains."""
    name = r.called(target) if r.names.get(target) or r.op_name(target) else called
    return f"gradient of {amid(name)} gains {size_text(gained)}" + (f", now {size_text(now)}" if now is not None else "")


def gains(told: list[str]) -> str:
    """Join what a step's inputs gained; for more than five, only the first four."""
    if len(told) > 5:
        told = [*told[:4], f"{len(told) - 4} more inputs get theirs"]
    return "; ".join(told) or "no input wants a gradient"


def _conj(grad: Any) -> Any:
    """The gradient that a leaf stores: for complex dtypes, PyTorch's is the conjugate of the rules' own."""
    return grad.conj() if grad.dtype.kind == "c" else grad


def size_text(s: protocol.Summary) -> str:
    """The size of a gradient as text: a scalar's value, else the norm."""
    if s.values is not None and s.size == 1:
        return number_text(s.values[0])
    return f"norm {number_text(s.norm)}" if s.norm is not None else "NaN or Inf"


def place_text(site: protocol.Site) -> str:
    """Where the op was called."""
    return f"{site.cell or site.file} line {site.line}"
