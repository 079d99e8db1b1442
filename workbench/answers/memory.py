"""Memory: what is needed now, what was needed at the peak, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import memory_use, protocol

if TYPE_CHECKING:
    from ..session import Client, Sent, Session


def memory(session: Session, request: protocol.AskMemory, client: Client) -> list[Sent]:
    """The memory of the recorded program now and over its events."""
    message, buffers = memory_use.answer(session.recording, request.id, session.graph)
    return [(message.to_json(), buffers)]
