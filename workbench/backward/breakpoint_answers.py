"""Breakpoints: change them, and list them with their rows in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..base.requests import answers
from . import breakpoints
from .conditions import Condition

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session

FLAGGED = 400  # a breakpoint at more nodes than this is only listed
_PLACES = {"op": "op", "name": "name", "module": "module"}


@answers(protocol.Break)
def change(session: Session, request: protocol.Break, client: Client) -> list[Sent]:
    """Apply a request to the kernel's breakpoints, and return all of them."""
    kept = session.breakpoints
    if request.do == "toggle":
        kept.toggle(session.recording, session.graph, request.number)
    elif request.do == "add" and request.where == "node":
        kept.add(kept.at_node(session.recording, session.graph, request.number, request.when))
    elif request.do == "add":
        place = {_PLACES[request.where]: request.what} if request.where != "any" else {}
        if place and not request.what.strip():
            raise protocol.Refused(f"A breakpoint at {request.where} needs to know which: mul, layers.*.weight, encoder.")
        if request.when.strip():
            Condition(request.when)
        kept.add(breakpoints.Breakpoint.of(request.when, **place))
    elif request.do == "remove":
        kept.remove(request.number)
    elif request.do in ("on", "off"):
        kept.switch(request.number, request.do == "on")
    elif request.do == "clear":
        kept.clear()
    return [message(session, request.id)]


def message(session: Session, re: int | None) -> Sent:
    """All breakpoints, with the number of nodes they match in the graph shown."""
    found = []
    for one in session.breakpoints.all:
        places = -1 if one.where == "any" else len(breakpoints.rows_of(one, session.recording, session.graph))
        found.append(protocol.Breakpoint(one.id, one.where, one.what, one.when, one.on, places))
    return protocol.Breakpoints(re, session.recording.name, found).to_json(), []


def flags(session: Session) -> list[protocol.Flag]:
    """A mark at each node with a breakpoint: a dot, or a diamond if it has a condition; hollow if it is disabled."""
    found: dict[int, protocol.Flag] = {}
    for one in session.breakpoints.all:
        rows = set() if one.where == "any" else breakpoints.rows_of(one, session.recording, session.graph)
        if len(rows) > FLAGGED:
            continue
        glyph = ("◆" if one.on else "◇") if one.when else ("●" if one.on else "○")
        words = f"Breakpoint{'' if one.on else ', resting'}: {one}"
        for row in sorted(rows):
            if session.recording.grad[row] and (row not in found or one.on):
                found[row] = protocol.Flag(row, glyph, words, "error" if one.on else "accent")
    return list(found.values())
