"""The findings of the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol

if TYPE_CHECKING:
    from ..session import Client, Sent, Session


def thorough(session: Session, request: protocol.AskFindings, client: Client) -> list[Sent]:
    """Run every check over every value. Refused while a cell runs."""
    if session.busy():
        raise protocol.Refused("A cell is running. The checks look at what it made when it has ended.")
    session.check(thorough=True, but=client)
    return [told(session, request.id)]


def told(session: Session, re: int | None) -> Sent:
    """The findings, as a message for a view."""
    return protocol.Findings(re, session.recording.name, session.findings or [], session.thorough, session.unsure).to_json(), []
