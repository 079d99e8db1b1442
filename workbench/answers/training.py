"""A training loop: play, pause, one iteration, back to the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol

if TYPE_CHECKING:
    from ..session import Client, Sent, Session


def train(session: Session, request: protocol.Train, client: Client) -> list[Sent]:
    """Pass the request on to the loop."""
    if session.training is None:
        raise protocol.Refused("There is no training loop here. Write for batch in wb.loop(data, model, optimizer) to get one.")
    session.training.wish(request.do)
    return [(session.training.message(request.id).to_json(), [])]
