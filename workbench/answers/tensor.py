"""One tensor: its value, its gradient, or the reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import inspector, protocol

if TYPE_CHECKING:
    from ..session import Client, Sent, Session


def inspect(session: Session, request: protocol.Inspect, client: Client) -> list[Sent]:
    """The value or the gradient of one node, or why it is not there."""
    r, row = session.recording, request.node
    if not 0 <= row < r.count:
        raise protocol.BadMessage(f"There is no node {row} in this graph; it has {r.count}.")
    name = r.names.get(row, "")
    forward = session.forward(row)
    if request.what == "grad":
        array, missing = session.gradient(row)
        facts = [] if array is None else inspector.facts(array)
    else:
        array, missing = r.value(row), ""
        if array is None:
            missing = session.gone(row)
        facts = inspector.facts(array, r.tensor(row), r, row) if array is not None else [protocol.Fact("shape", str(r.shape[row]))]
        if r.note[row]:
            facts.append(protocol.Fact("note", r.note[row]))
        if array is not None and r.kind[row] != "constant" and r.overwritten(row):
            facts.append(protocol.Fact("overwritten", "Its memory was written in place since; these are the numbers of now."))
    if array is None:
        message = protocol.Inspected(request.id, r.name, row, request.what, name, facts, None, None, None, [], forward, missing)
        return [(message.to_json(), [])]
    summary = inspector.summary(array)
    histogram = inspector.histogram(array, request.exact)
    heat, buffers, at = inspector.heat(array, request.slice)
    message = protocol.Inspected(request.id, r.name, row, request.what, name, facts, summary, histogram, heat, at, forward, "")
    return [(message.to_json(), buffers)]
