"""Requests about the whole view, such as when it opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..base import requests
from ..base.requests import answers

if TYPE_CHECKING:
    from .session import Client, Sent, Session


@answers(protocol.Ready)
def ready(session: Session, request: protocol.Ready, client: Client) -> list[Sent]:
    """Everything that a newly opened view should show."""
    session.opened += 1
    client.opened = True
    client.steps.clear()
    return session.everything(client) + [message for greeting in requests.GREETING for message in greeting(session)]


@answers(protocol.ToSidePanel)
def to_side_panel(session: Session, request: protocol.ToSidePanel, client: Client) -> list[Sent]:
    """Show this session in the side panel. Refused if there is none."""
    if session.to_side_panel is None:
        raise protocol.Refused("There is no side panel here.")
    session.to_side_panel(session)
    return [(protocol.InSidePanel(request.id).to_json(), [])]
