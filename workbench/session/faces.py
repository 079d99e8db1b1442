"""What a view shows on its boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..base.requests import answers
from ..graph import faces

if TYPE_CHECKING:
    from .session import Client, Sent, Session


@answers(protocol.AskFaces)
def shown(session: Session, request: protocol.AskFaces, client: Client) -> list[Sent]:
    """The faces of the requested nodes."""
    r = session.recording
    rows = [row for row in request.nodes if 0 <= row < r.count]
    return [(protocol.Faces(request.id, r.name, faces.faces(r, rows)).to_json(), [])]
