"""A bell that wakes a thread which waits for sockets: another thread has done something that it waits for."""

from __future__ import annotations

import socket
from typing import Any


class Bell:
    """One side is polled, with whatever else is; the other is rung from any thread. Used in a `with` block."""

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
        """What to poll."""
        return self._inside.fileno()

    def ring(self) -> None:
        """Wake who waits, or who will."""
        try:
            self._outside.send(b"!")
        except OSError:  # it rings already; or nobody waits any more
            return

    def hush(self) -> None:
        """It was heard."""
        try:
            while self._inside.recv(4096):
                pass
        except BlockingIOError:
            return
