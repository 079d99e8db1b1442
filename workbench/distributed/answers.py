"""Answers to views of several processes: which one is shown, and what differs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..base.requests import answers, state
from ..session.session import Client, Sent, Session

if TYPE_CHECKING:
    from .across import Among


def _ranks(session: Session, re: int | None) -> list[Sent]:
    among: Among | None = session.among
    if among is None or among.size < 2:
        return []
    return [(protocol.Ranks(re, session.recording.name, among.rank, among.size, among.sentences).to_json(), [])]


@state
def shown(session: Session) -> list[Sent]:
    """Which process the graph is of."""
    return _ranks(session, None)


@answers(protocol.AskRank)
def other(session: Session, request: protocol.AskRank, client: Client) -> list[Sent]:
    """All of this process's graph, for a view that has shown another's."""
    if session.among is None or session.among.rank != request.rank:
        raise protocol.Refused("This view is of one process only. cluster.show(...) makes one of all.")
    client.steps.clear()
    return [*session.everything(client), *_ranks(session, request.id)]
