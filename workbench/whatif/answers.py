"""What-ifs: forks of the pass, changed values, one op's derivatives and their check, contributions and paths of a gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from engine.backends.batch import Batched

from .. import protocol
from ..backward import fanout
from ..backward.stepper import PassEnded, Stepper
from ..backward.telling import joined
from ..base.requests import answers
from ..inspector import host, plain_values, summary
from ..recording.recompute import Cannot, Recomputed
from ..recording.recording import Recording
from ..torch_models.passes import TorchPass
from ..torch_models.recording import TorchRecording
from ..torch_models.refusals import SENTENCE as REFUSED
from . import contributions, equation, local, one, rerunning, rule_check, substeps
from .forks import Edit, Fork, Forks, forks_of, relative_difference
from .ground import tape_nodes
from .picture import Pictures

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session

AGAIN = 500  # maximum number of ops recomputed, so that a step stays fast


@answers(protocol.AskLocal)
def local_derivatives(session: Session, request: protocol.AskLocal, client: Client) -> list[Sent]:
    """The Jacobian of one op, input by input, with the gradients of the pass if it has taken that step."""
    r = session.recording
    if isinstance(r, TorchRecording):
        return _recorded(session, request, _row(session, request.node))
    row, nodes = _nodes(session, request.node, request.place)
    missing, parts, pictures, shape = "", [], Pictures(), list(r.shape[row])
    try:
        _wait_for_cell(session)
        op = one.one_op(r, row, nodes)
        upstream, given = _taken(session.stepper, request.place, row)
        if isinstance(upstream, list):  # for an op with several results: the gradient of the one that was used
            there = [i for i, g in enumerate(upstream) if g is not None]
            op.result = there[0]
            upstream, given = (upstream[there[0]], given) if len(there) == 1 else (None, {})
        if isinstance(upstream, Batched):
            raise Cannot("The gradient here is one for each sample of a vmap, so the derivative of this single op is not shown.")
        shape = list(op.shape)
        for slot in op.differentiable():
            parts.append(_part(op, slot, request.chosen, upstream, given.get(slot), pictures))
    except Cannot as reason:
        missing = str(reason)
    forward = _forward(session, request, row, nodes, pictures)
    message = protocol.Local(request.id, r.name, row, request.place, shape, forward, parts, missing)
    return [(message.to_json(), pictures.buffers)]


def _recorded(session: Session, request: protocol.AskLocal, row: int) -> list[Sent]:
    """The recorded values of a PyTorch step. Derivatives by themselves are not available."""
    r, stepper, pictures = session.recording, session.stepper, Pictures()
    upstream, given = None, []
    if isinstance(stepper, TorchPass) and 0 < request.place <= stepper.total and stepper.plan[request.place - 1] == row:
        upstream, given = stepper.handed_on(request.place)
    if r.ops[row] is None:
        forward = [] if upstream is None else [protocol.Term("+=", pictures.of(upstream, "upstream"))]
    else:
        rows = [*(source for source, _ in sorted(r.inputs(row), key=lambda one: one[1])), row]
        values = [None if r.overwritten(at) else r.value(at) for at in rows]
        forward = [] if any(value is None for value in values) else _terms(r, rows, values, pictures)
    parts = []
    for slot, label, target, gradient in given:
        known = upstream is not None and gradient is not None
        terms = [("", "upstream", upstream), ("→", r.called(target), gradient)] if known else []
        equation = [protocol.Term(sign, pictures.of(array, name)) for sign, name, array in terms]
        parts.append(protocol.LocalPart(slot, label, target, "", "", "", None, 0, 0, None, -1, equation, [], ""))
    message = protocol.Local(request.id, r.name, row, request.place, list(r.shape[row]), forward, parts, REFUSED)
    return [(message.to_json(), pictures.buffers)]


def _terms(r: Recording, rows: list[int], values: list[Any], pictures: Pictures) -> list[protocol.Term]:
    """The terms of an op's inputs and, last, of its result."""
    arrays = [value if hasattr(value, "ndim") else numpy.asarray(value) for value in values]
    signs = ["→" if at == len(rows) - 1 else "" for at in range(len(rows))]
    return [protocol.Term(sign, pictures.of(array, r.called(row))) for sign, array, row in zip(signs, arrays, rows, strict=True)]


def _forward(session: Session, request: protocol.AskLocal, row: int, nodes: one.Nodes, pictures: Pictures) -> list[protocol.Term]:
    """The op's inputs and its result, or what a leaf's .grad gains; empty if one of them is missing."""
    r = session.recording
    if r.ops[row] is None:
        gained, _ = _taken(session.stepper, request.place, row)
        return [] if gained is None else [protocol.Term("+=", pictures.of(gained, "upstream"))]
    given = {slot: source for source, slot in r.inputs(row)}
    gone = any(r.ops[at] is not None and (r.value(at) is None or r.overwritten(at)) for at in (row, *given.values()))
    if gone and len(r.reachable(row)) > AGAIN:
        return []
    try:
        inputs = one.recorded_inputs(r, row, nodes)
        made = r.value(row)
        if made is None or r.overwritten(row):
            made = Recomputed(r, row, nodes=nodes).output.array
    except Cannot:
        return []
    taken = sorted(given.items())
    return _terms(r, [*(source for _, source in taken), row], [*(inputs[slot] for slot, _ in taken), made], pictures)


def _part(op: one.One, slot: int, chosen: int, upstream: Any, given: Any, pictures: Pictures) -> protocol.LocalPart:
    target, name = op.sources[slot], op.names[slot]
    called = op.recording.called(target) if target >= 0 else name
    inside, terms = [], []
    if upstream is not None and given is not None:
        for s in substeps.sub_steps(op, slot, upstream, given, called):
            before, after = pictures.of(s.before, "before"), pictures.of(s.after, "after")
            inside.append(protocol.SubStep(s.kind, s.sentence, s.axes, before, after))  # type: ignore[arg-type]
    try:
        found = local.local_derivative(op, slot, chosen)
    except Cannot as reason:
        return protocol.LocalPart(slot, name, target, "", "", "", None, 0, 0, None, -1, [], inside, str(reason))
    if upstream is not None and given is not None:
        terms = [protocol.Term(t.sign, pictures.of(t.array, t.label)) for t in equation.equation(op, found, upstream, given)]
    if inside and [t.sign for t in terms] == ["", "→"]:
        terms = []  # the sub-step shows the same two pictures, and explains what happens between them
    scalar = found.kind == "scalar"
    return protocol.LocalPart(
        slot, name, target, found.kind, found.structure, found.sentence,  # type: ignore[arg-type]
        plain_values(found.values)[0] if scalar else None, math.prod(found.shape), math.prod(found.input_shape),
        None if scalar else pictures.of(found.values, f"∂{op.op.name}/∂{name}"), found.chosen, terms, inside, "",
    )  # fmt: skip


@answers(protocol.AskSlopes)
def slopes(session: Session, request: protocol.AskSlopes, client: Client) -> list[Sent]:
    """The derivative on each edge between scalars, for an expression graph such as those of lesson 1."""
    if _runs(session):  # a lesson's page shows them as soon as its view opens, perhaps while the next cell runs
        raise protocol.Postponed
    r, stepper = session.recording, session.stepper
    found = local.slopes(r, {} if stepper is None else tape_nodes(stepper))
    missing = "" if found else "No op here maps a scalar to a scalar, so there is no number to show on an edge."
    sources, targets = [source for source, _, _ in found], [target for _, target, _ in found]
    values = [value if math.isfinite(value) else str(value) for _, _, value in found]
    return [(protocol.Slopes(request.id, r.name, sources, targets, values, missing).to_json(), [])]


@answers(protocol.AskFanOut)
def fan_out(session: Session, request: protocol.AskFanOut, client: Client) -> list[Sent]:
    """The contributions to a node's gradient, both arrived and still to come."""
    stepper, row = _stepper(session), _row(session, request.node)
    found = fanout.fan_out(stepper, row)
    pictures = Pictures()
    addends = [
        protocol.Addend(
            a.consumer, a.name, a.place, a.state,  # type: ignore[arg-type]
            None if a.gradient is None else pictures.of(a.gradient, a.name),
        ) for a in found.addends
    ]  # fmt: skip
    total = None if found.total is None else pictures.of(found.total, "sum")
    message = protocol.FanOut(request.id, session.recording.name, row, stepper.index, addends, total, found.sentence)
    return [(message.to_json(), pictures.buffers)]


@answers(protocol.AskPaths)
def paths(session: Session, request: protocol.AskPaths, client: Client) -> list[Sent]:
    """How much of a node's gradient each path from the loss contributed."""
    _wait_for_cell(session)
    stepper, row = _stepper(session), _row(session, request.node)
    most = max(1, min(request.most, 200))
    found = contributions.paths(forks_of(stepper).ground, row, most)
    listed = [
        protocol.PathPart(p.rows, p.slots, f"{p.paths:,}" if p.paths < 10**7 else f"{p.paths:.2e}", _finite(p.share), _finite(p.norm))
        for p in found.listed[:most]
    ]
    rest = found.listed[most:]
    return [(
        protocol.Paths(
            request.id, session.recording.name, row, found.sentence, summary(found.gradient), listed, len(rest),
            _finite(sum(p.share for p in rest)) or 0.0, found.note,
        ).to_json(), [],
    )]  # fmt: skip


@answers(protocol.CheckRule)
def check_rule(session: Session, request: protocol.CheckRule, client: Client) -> list[Sent]:
    """Check a rule against finite differences."""
    _wait_for_cell(session)
    row, nodes = _nodes(session, request.node, 0)
    outcome = {True: "agrees", False: "disagrees", None: "not told"}
    try:
        found = rule_check.check_rule(session.recording, row, nodes)
    except Cannot as reason:
        message = protocol.Checked(request.id, session.recording.name, row, "not told", str(reason), "", [])
        return [(message.to_json(), [])]
    inputs = [
        protocol.CheckedInput(
            i.name, outcome[i.passed],  # type: ignore[arg-type]
            f"all {i.compared} elements" if i.exact else f"{i.compared} random directions", _finite(i.absolute), _finite(i.relative), i.why,
        ) for i in found.inputs
    ]  # fmt: skip
    message = protocol.Checked(
        request.id,
        session.recording.name,
        row,
        outcome[found.passed],
        found.sentence,
        found.tolerance,
        inputs,  # type: ignore[arg-type]
    )
    return [(message.to_json(), [])]


# -- forks ---------------------------------------------------------------------------------------------------------------------


@answers(protocol.ForkPass)
def fork(session: Session, request: protocol.ForkPass, client: Client) -> list[Sent]:
    """The forks of the pass, after creating or deleting one, or writing it to .grad or undoing that."""
    stepper = _stepper(session)
    forks = forks_of(stepper)
    if request.do in ("make", "write", "undo", "delete"):
        _wait_for_cell(session)
    if request.do == "make":
        row = _row(session, request.node)
        index = None if request.index is None else tuple(request.index)
        forks.make(Edit(row, request.text, request.slot, index, request.place), request.name)
    elif request.do == "delete":
        forks.delete(request.name)
    elif request.do == "write":
        forks.find(request.name).write(stepper)
        session.tell_others(client)
    elif request.do == "undo":
        forks.find(request.name).undo()
    answers = [(_forks(session, request.id, stepper, forks).to_json(), [])]
    if request.do == "write":
        answers.append((session.stepped(client, None).to_json(), []))
    return answers


def _forks(session: Session, re: int, stepper: Stepper, forks: Forks) -> protocol.Forks:
    note = forks.ground.note if forks.made else ""
    return protocol.Forks(re, session.recording.name, stepper.index, [_fork(stepper, f) for f in forks.made.values()], note)


def _fork(stepper: Stepper, fork: Fork) -> protocol.ForkPart:
    recording = stepper.recording
    rows = [row for row in fork.base.leaves if row >= 0]
    parameters = [_beside(recording, row, fork.base.leaves[row], fork.leaves.get(row)) for row in rows]
    here = stepper.plan[stepper.index - 1] if stepper.index else -1
    at = None
    if here in fork.differences or here in fork.base.gradients:
        base, other = fork.base.gradients.get(here), fork.run.gradients.get(here)
        at = protocol.Beside(
            here, recording.called(here), None if base is None else summary(base), None if other is None else summary(other),
            _number(fork.difference(here)),
        )  # fmt: skip
    differences = [_number(fork.difference(row)) for row in stepper.plan]
    return protocol.ForkPart(fork.name, fork.edit.row, fork.place, str(fork.edit), fork.written, parameters, at, differences)


def _beside(recording: Any, row: int, base: Any, other: Any) -> protocol.Beside:
    return protocol.Beside(
        row, recording.called(row), None if base is None else summary(base), None if other is None else summary(other),
        _number(relative_difference(other, base)),
    )  # fmt: skip


@answers(protocol.AskEdit)
def editable(session: Session, request: protocol.AskEdit, client: Client) -> list[Sent]:
    """The elements that can be edited: of a gradient at the current step, or of a value."""
    row = _row(session, request.node)
    r, pictures = session.recording, Pictures()
    array, name, missing = None, r.called(row), ""
    if request.what == "value":
        try:
            array = rerunning.value_of(r, row)
        except Cannot as reason:
            missing = str(reason)
    else:
        upstream, given = _taken(session.stepper, request.place, row)
        array = joined(upstream) if request.what == "upstream" else given.get(request.slot)
        missing = "" if array is not None else "This gradient was not kept, so its elements cannot be shown; an expression can be typed."
    edited = None if array is None else protocol.Edited(row, name, list(host(array).shape), pictures.of(array, name))
    message = protocol.Editable(request.id, r.name, row, request.what, request.slot, edited, missing)
    return [(message.to_json(), pictures.buffers)]


@answers(protocol.Rerun)
def again(session: Session, request: protocol.Rerun, client: Client) -> list[Sent]:
    """Rerun the recorded program with another value."""
    _wait_for_cell(session)
    row, r, stepper = _row(session, request.node), session.recording, session.stepper
    root = r.row_of(stepper.roots[0]) if stepper is not None else r.root
    if root < 0:
        raise Cannot("There is no result to compute again: use wb.show(loss) or wb.step(loss).")
    index = None if request.index is None else tuple(request.index)
    nodes = {} if stepper is None else tape_nodes(stepper)
    found = rerunning.rerun(r, root, [rerunning.Change(row, request.text, index)], nodes)
    rows = [*found.base_gradients, *[row for row in found.gradients if row not in found.base_gradients]]
    parameters = [_beside(r, at, found.base_gradients.get(at), found.gradients.get(at)) for at in rows]
    changes = [f"{r.called(c.row)}: {c}" for c in found.changes]
    message = protocol.Reran(request.id, r.name, changes, summary(found.base), summary(found.loss), parameters, found.notes)
    return [(message.to_json(), [])]


# -- lookups ---------------------------------------------------------------------------------------------------------------------


def _row(session: Session, row: int) -> int:
    if not 0 <= row < session.recording.count:
        raise protocol.BadMessage(f"There is no node {row} in this graph; it has {session.recording.count}.")
    return row


def _stepper(session: Session) -> Stepper:
    if session.stepper is None:
        raise PassEnded("There is no backward pass here. Use wb.step(loss) to get one.")
    return session.stepper


def _runs(session: Session) -> bool:
    """Whether the user's code runs, and does not wait inside backward()."""
    return session.busy() and not getattr(session.stepper, "held", False)


def _wait_for_cell(session: Session) -> None:
    """Refuse to compute while the user's code runs."""
    if _runs(session):
        raise Cannot("The kernel is running a cell. Try again when the cell is done.")


def _nodes(session: Session, row: int, place: int) -> tuple[int, dict[int, Any]]:
    """The checked row, and the known nodes of the tape by row; for this row, the node of that step."""
    row, stepper = _row(session, row), session.stepper
    if stepper is None:
        return row, {}
    nodes = tape_nodes(stepper)
    if 0 < place <= stepper.total and stepper.plan[place - 1] == row:
        nodes[row] = stepper.nodes[place - 1]
    return row, nodes


def _taken(stepper: Stepper | None, place: int, row: int) -> tuple[Any, dict[int, Any]]:
    """The gradient that arrived in that step and those passed on, by slot, if the record kept them."""
    if stepper is None or not 0 < place <= len(stepper.taken) or stepper.plan[place - 1] != row:
        return None, {}
    taken = stepper.taken[place - 1]
    if taken is None or taken.upstream is None:
        return None, {}
    return taken.upstream, {slot: g for slot, g in enumerate(taken.gradients) if g is not None}


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None


def _number(x: float | None) -> float | str | None:
    return x if x is None or math.isfinite(x) else str(x)
