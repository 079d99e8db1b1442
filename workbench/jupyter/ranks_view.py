"""The view of all ranks that `cluster.show` returns: it is one widget of the notebook, and the rank that it shows answers it."""

from __future__ import annotations

from typing import Any

from ..protocol import Problem
from . import rank
from .widget import Widget


class RanksView(Widget):
    """A view of the graphs of all ranks, with a slider for the rank.

    Attributes:
        rank: the rank that is shown.
    """

    _open = False

    def __init__(self, engines: Any, code: str, seconds: float) -> None:
        self.rank, self._engines = 0, engines
        opened = engines.apply_async(rank.show, code).get(seconds)
        self._number, self._pictures, self._head = opened[0]
        self._open = True
        super().__init__()

    def _asked(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        if message.get("type") == "ask_rank" and message.get("rank") in range(len(self._engines)):
            self.rank = message["rank"]
        asked = self.rank

        def came(done: Any) -> None:
            if (error := done.exception()) is not None:
                self._say(Problem(message.get("id"), f"Rank {asked} did not answer: {error}", -1).to_json(), [])
                return
            for content, buffers in done.result():
                self.send(content, buffers or None)

        if asked in self._ranks():
            self._engines.client[asked].apply_async(rank.asked, self._number, message).add_done_callback(came)
        else:
            self._say(Problem(message.get("id"), f"Rank {asked} has ended.", -1).to_json(), [])

    def _ranks(self) -> list[int]:
        """The ranks that live."""
        client = self._engines.client
        return [] if client._closed else client.ids

    def _stills(self) -> dict[str, str]:
        return self._pictures

    def close(self) -> None:
        """Close the widget; an unfinished pass restores `.grad` on each rank."""
        if self._open and len(self._ranks()) == len(self._engines):
            self._engines.apply_async(rank.close, self._number)
        self._open = False
        super().close()

    def __repr__(self) -> str:
        return self._line or self._head
