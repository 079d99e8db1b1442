"""The Jupyter Server extension switches Nagle's algorithm off, whichever connection class the server uses."""

from __future__ import annotations

from types import SimpleNamespace

from workbench.jupyter import server as extension


class Connection:
    """As much of a kernel connection as the extension may count on."""

    def __init__(self, websocket_handler):
        self.websocket_handler = websocket_handler

    def connect(self):
        return "connected"


def test_connection_is_made_without_delay_and_as_before():
    asked = []
    web_app = SimpleNamespace(settings={"kernel_websocket_connection_class": Connection})
    extension._load_jupyter_server_extension(SimpleNamespace(web_app=web_app))
    made = web_app.settings["kernel_websocket_connection_class"](SimpleNamespace(set_nodelay=asked.append))
    assert isinstance(made, Connection)
    assert made.connect() == "connected"
    assert asked == [True]


def test_real_connection_class_is_one():
    from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

    made = extension.without_delay(ZMQChannelsWebsocketConnection)
    assert issubclass(made, ZMQChannelsWebsocketConnection)
    assert made._open_sockets is ZMQChannelsWebsocketConnection._open_sockets  # the server closes them through its own class
