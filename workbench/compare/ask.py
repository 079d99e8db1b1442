"""The implementation of `wb.diff`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..graph.graph import Graph
from ..recording.recording import recent
from ..session.surface import ShownSession
from ..subjects.recordings import recording_of
from .difference import Difference


class DifferenceSession(ShownSession):
    """A session on two recordings at once."""

    def __init__(self, difference: Difference, names: Mapping[str, Any]) -> None:
        graph = Graph(difference)
        graph.view = "difference"
        super().__init__(difference, graph)
        graph.finish(names)
        self.flags["difference"] = difference.flags()

    def __repr__(self) -> str:
        assert isinstance(self.recording, Difference)
        return self.recording.report()


def compared(before: Any, after: Any, names: Mapping[str, Any]) -> DifferenceSession:
    """Compare two recordings in one graph. Raises RuntimeError if there are not two."""
    if before is None and after is None:
        made = [r for r in recent if r.count]
        if len(made) < 2:
            raise RuntimeError(f"wb.diff() compares the last two recordings, and there {'is only one' if made else 'is none'} yet.")
        return DifferenceSession(Difference(made[-2], made[-1]), names)
    return DifferenceSession(Difference(recording_of(before, names), recording_of(after, names)), names)
