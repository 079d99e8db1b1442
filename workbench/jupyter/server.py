"""A Jupyter Server extension that sends kernel messages without delay, so that a click on *next* is answered in 7 ms, not 48 ms.

Jupyter Server leaves Nagle's algorithm enabled on its web sockets: a small message waits until the browser has acknowledged the previous
one.
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
    """Subclass a kernel connection class (the server's own, or a gateway's) to set TCP_NODELAY on the browser's socket."""

    class Undelayed(connection):
        def connect(self) -> Any:
            self.websocket_handler.set_nodelay(True)
            return super().connect()

    return Undelayed
