"""A bell that wakes a thread polling sockets, when another thread has done what it waits for."""

from __future__ import annotations

import socket
from typing import Any


class Bell:
    """One end is polled along with other sockets; the other is rung from any thread. Used in a `with` block."""

    def __init__(self) -> None:
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *error: Any) -> None:
        self._outside.close()
        self._inside.close()

    def fileno(self) -> int:
        """The file descriptor to poll."""
        return self._inside.fileno()

    def ring(self) -> None:
        """Wake the waiting thread, now or when it next polls."""
        try:
            self._outside.send(b"!")
        except OSError:  # already ringing, or no one is waiting
            return

    def hush(self) -> None:
        """Reset the bell after it has been noticed."""
        try:
            while self._inside.recv(4096):
                pass
        except BlockingIOError:
            return
