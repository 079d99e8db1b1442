"""The Jupyter Server extension: sends what a kernel says at once, so that a click on *next* is answered in 7 ms and not in 48.

Jupyter Server leaves Nagle's algorithm on for its web sockets: a small message waits until the browser has confirmed the one before.
"""

from __future__ import annotations

from typing import Any

from jupyter_server.serverapp import ServerApp


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "workbench.jupyter.server"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    settings = server.web_app.settings
    settings["kernel_websocket_connection_class"] = without_delay(settings["kernel_websocket_connection_class"])


def without_delay(connection: type) -> type:
    """The given kernel connection class (the server's own, or a gateway's), with TCP_NODELAY set on the browser's socket."""

    class Undelayed(connection):
        def connect(self) -> Any:
            self.websocket_handler.set_nodelay(True)
            return super().connect()

    return Undelayed
