"""Files saved from the view that only the kernel can write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .. import protocol
from ..base.requests import answers
from . import data, dot, mermaid
from .privacy import without_path
from .replay import replay

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session

WRITERS = {"json": data.text, "dot": dot.text, "mmd": mermaid.text}
MEDIA = {"html": "text/html", "json": "application/json", "dot": "text/vnd.graphviz", "mmd": "text/vnd.mermaid"}


@answers(protocol.AskExport)
def export(session: Session, request: protocol.AskExport, client: Client) -> list[Sent]:
    """Return the requested file as bytes."""
    if request.format == "html" and session.busy():
        raise protocol.Refused("A cell is running. The replay can be saved when it has ended.")
    note = ""
    try:
        if request.format == "html":
            made = replay(session)
            content, note = made.html(), made.left
        else:
            content = WRITERS[request.format](session.graph.message())
    except RuntimeError as error:
        raise protocol.Refused(str(error)) from error
    data = content.encode()
    name = re.sub(r"[^\w.-]+", "_", without_path(session.recording.title)).strip("_") or "graph"
    buffer = protocol.Buffer(0, "uint8", [len(data)])
    told = protocol.Exported(request.id, session.recording.name, f"{name}.{request.format}", MEDIA[request.format], buffer, note)
    return [(told.to_json(), [data])]
