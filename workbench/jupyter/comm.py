"""The JupyterLab panel's connection to the kernel: the comm target `workbench`, which follows the session opened last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from comm import get_comm_manager

from ..protocol import VERSION, Problem
from ..protocol.pack import pack
from ..recording.recording import Recording
from ..session.session import Client, Session

TARGET = "workbench"
NOTHING = "Nothing has been recorded in this notebook yet. Put %%watch at the top of a cell and run it, or call wb.show(loss)."

_latest: Session | None = None
_panels: dict[str, _Panel] = {}


class _Panel:
    """The connection to one page. It is attached to the latest session once it requests what to show; until then it is sent nothing."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.client: Client | None = None
        self.shows = False

    def say(self, message: dict[str, Any], buffers: list[bytes]) -> None:
        message, buffers = pack(message, buffers)
        self.channel.send(data=message, buffers=buffers or None)

    def attach(self, session: Session) -> None:
        if self.client is not None:
            self.client.close()
        self.client = session.connect(self.say)

    def heard(self, message: dict[str, Any]) -> None:
        data = message["content"]["data"]
        ready = isinstance(data, dict) and data.get("type") == "ready"
        self.shows |= ready
        if self.shows and self.client is None:
            self.attach(_latest or _nothing())
        if self.client is not None:
            self.client.receive(data)
        else:
            for answer in (_latest or _nothing()).handle(data):
                self.say(*answer)
        if _latest is None and ready:
            self.say(Problem(None, NOTHING, -1).to_json(), [])

    def closed(self, message: Any) -> None:
        _panels.pop(self.channel.comm_id, None)
        if self.client is not None:
            self.client.close()


def _nothing() -> Session:
    """An empty, finished session, shown before there is a recording."""
    session = Session(Recording())
    session.graph.finish()
    return session


def register() -> None:
    """Register the comm target, which the panel opens by name."""
    get_comm_manager().register_target(TARGET, _opened)


def forget() -> None:
    """Detach all panels from the session that they show."""
    global _latest
    _latest = None
    for panel in list(_panels.values()):
        if panel.client is not None:
            panel.client.close()
            panel.client = None


def follow(session: Session) -> None:
    """Show this session in all panels from now on."""
    global _latest
    _latest = session
    for panel in [panel for panel in _panels.values() if panel.shows]:
        panel.attach(session)
        assert panel.client is not None
        panel.client.receive({"type": "ready", "v": VERSION, "id": 0})


def closed(session: Session) -> None:
    """Forget a session that no view shows any more, so that panels opened later do not show it."""
    global _latest
    if _latest is session:
        _latest = None


def latest() -> Session | None:
    """The session opened last."""
    return _latest


def direct(channel: Any, receive: Callable[[dict[str, Any]], None]) -> None:
    """Handle the front end's messages in the shell that receives them, by `receive` alone.

    ipykernel 7.4 sends them to the shell that last wrote to the comm: the main one, which is busy while a cell waits for that very message.
    Also, a comm fires `pre_execute` and `post_execute` around each message: in a running cell, that makes matplotlib show, and close, the
    figure that the cell is still drawing.
    """
    if hasattr(channel, "_reply_subshell_for"):
        channel._reply_subshell_for = lambda data, default: default
    channel.handle_msg = receive


def _opened(channel: Any, message: Any) -> None:
    panel = _panels[channel.comm_id] = _Panel(channel)
    direct(channel, panel.heard)
    channel.on_close(panel.closed)
