"""The findings of the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..base.requests import answers, state
from . import look

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session


@answers(protocol.AskFindings)
def thorough(session: Session, request: protocol.AskFindings, client: Client) -> list[Sent]:
    """Run every check over every value. Refused while a cell runs."""
    if session.busy():
        raise protocol.Refused("A cell is running. The checks run when it has ended.")
    check(session, thorough=True, but=client)
    return [message(session, request.id)]


def message(session: Session, re: int | None) -> Sent:
    """The findings, as a message for a view."""
    return protocol.Findings(re, session.recording.name, session.findings or [], session.thorough, session.unsure).to_json(), []


@state
def findings(session: Session) -> list[Sent]:
    """The findings, once the checks have run."""
    return [] if session.findings is None else [message(session, None)]


def check(session: Session, thorough: bool = False, but: Client | None = None) -> None:
    """Run the checks, flag nodes with the findings, and notify all views except `but`."""
    with session.lock:
        session.findings, session.unsure = look.look(session.recording, session.graph.optimizers, thorough)
        session.thorough = thorough
        if session.findings or "check" in session.flags:
            session.flag("check", look.flags(session.findings, session.recording.failure))
        for client in session.clients:
            if client is not but:
                client.send(*message(session, None))
