"""Requests about the whole view, such as when it opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..comparing.pins import BOARD
from . import compare

if TYPE_CHECKING:
    from ..session import Client, Sent, Session


def ready(session: Session, request: protocol.Ready, client: Client) -> list[Sent]:
    """Everything that a newly opened view should show."""
    session.opened += 1
    client.opened = True
    client.steps.clear()
    pinned = [compare.compared(session, None)] if BOARD.pins else []
    return session.everything(client) + pinned


def to_side_panel(session: Session, request: protocol.ToSidePanel, client: Client) -> list[Sent]:
    """Show this session in the side panel. Refused if there is none."""
    if session.to_side_panel is None:
        raise protocol.Refused("There is no side panel here.")
    session.to_side_panel(session)
    return [(protocol.InSidePanel(request.id).to_json(), [])]
