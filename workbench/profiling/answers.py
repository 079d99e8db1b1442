"""Times: the events in a window of time, and the totals by line, op and module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from .. import protocol
from ..base.requests import answers
from ..graph import timing

if TYPE_CHECKING:
    from ..graph.graph import Graph
    from ..session.session import Client, Sent, Session

MOST = 100_000  # maximum number of events sent
ROWS = 200  # maximum rows of each table


@answers(protocol.AskTiming)
def times(session: Session, request: protocol.AskTiming, client: Client) -> list[Sent]:
    """The events of the window; only the longest if there are too many."""
    message, buffers = told(timing.Times(session.recording), session.graph, request)
    return [(message.to_json(), buffers)]


def told(found: timing.Times, graph: Graph, request: protocol.AskTiming) -> tuple[protocol.Timing, list[bytes]]:
    """The message for a view, with its buffers."""
    r = found.recording
    end = found.seconds if request.end < request.begin else request.end
    shown = numpy.flatnonzero((found.begun < end) & (found.begun + found.took > request.begin)) if end else numpy.arange(len(found))
    took = found.took[shown]
    left = len(shown) - MOST
    left_seconds = 0.0
    if left > 0:
        order = numpy.argpartition(took, left)
        left_seconds = float(took[order[:left]].sum())
        shown = shown[numpy.sort(order[left:])]
    names: dict[str, int] = {}
    ops = numpy.array([names.setdefault(found.op[at], len(names)) for at in shown.tolist()], "<i4")
    events = numpy.stack([found.begun[shown], found.took[shown]], 1).astype("<f8")
    places = numpy.stack([found.row[shown], found.lane[shown]], 1).astype("<i4")
    back = found.lane == timing.BACKWARD
    cost = timing.cost(r)
    message = protocol.Timing(
        request.id, r.name, found.seconds, float(found.own[~back].sum()), float(found.own[back].sum()), request.begin, end,
        protocol.Buffer(0, "float64", list(events.shape)), protocol.Buffer(1, "int32", list(places.shape)), list(names),
        protocol.Buffer(2, "int32", list(ops.shape)), max(0, left), left_seconds,
        _rows(timing.by_line(found, graph), line=True), _rows(timing.by_op(found)), _rows(timing.by_module(found, graph)),
        " ".join(filter(None, ["" if cost is None else cost.sentence, timing.waited(r)])), "" if len(found) else timing.NOT_TIMED,
    )  # fmt: skip
    return message, [events.tobytes(), places.tobytes(), ops.tobytes()]


def _rows(totals: list[timing.Total], line: bool = False) -> list[protocol.TimeTotal]:
    found = []
    for t in totals[:ROWS]:
        name, label, site = (t.label, "", max(-1, t.key)) if line else (t.key, t.label, -1)
        found.append(protocol.TimeTotal(name, label, site, t.calls, t.forward, t.backward, t.inside, t.node))
    return found
