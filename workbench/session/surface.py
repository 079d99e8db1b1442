"""Sessions that also print themselves, for terminals, and the search for the recording that a tensor belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine import nn
from engine.core import tape
from engine.core.tensor import Tensor

from ..graph import text
from ..graph.boxes import put_in_boxes
from ..graph.graph import Graph
from ..recording.recording import Recording, recent
from ..recording.retrace import retrace
from .report import Report
from .session import Session


class ShownSession(Session):
    """A recording with its graph, as functions return it outside a notebook. It prints itself as a table.

    Attributes:
        stepper: the backward pass that is stepped through; None if there is none.
        findings: the findings of the checks; None before they have run.
    """

    def __repr__(self) -> str:
        return text.tree(self.graph.message(), self.gradient_texts())


class ReportSession(ShownSession):
    """A session that opens on one tab of the view, and prints that tab's report in a terminal."""

    def report(self) -> Report:
        """The tab as text."""
        raise NotImplementedError

    def stills(self) -> dict[str, str]:
        return {**super().stills(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return repr(self.report())


def opened(tensor: Tensor | None, names: Mapping[str, Any]) -> ShownSession:
    """Open a session on the newest recording with everything that `tensor` depends on, or on one made from the tape."""
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"Expected a Tensor, got {type(tensor).__name__}")
    recording = latest() if tensor is None else found(tensor)
    if recording is None:
        if tensor is None:
            raise RuntimeError(
                "Nothing has been recorded yet. Run a cell under %%watch, use `with wb.record():`, or give wb.show a tensor."
            )
        if tensor.node is None:
            raise RuntimeError(
                "This tensor does not require grad and no recording knows it, so there is no graph to show: it was made under no_grad(), "
                "after detach(), or from tensors none of which requires grad."
            )
        recording = retrace([tensor.node], [tensor])
        if not recording.scopes:  # its module calls were not recorded
            mine = [value for name, value in names.items() if isinstance(value, nn.Module) and not name.startswith("_")]
            put_in_boxes(recording, mine, nn)
    session = ShownSession(recording, Graph(recording))
    if tensor is not None:
        row = -1 if tensor.node is None else recording.row_of(tensor.node)
        recording.root = row if row >= 0 else recording.find(tensor)
    if recording.live:
        session.graph.name(names)
    else:
        session.graph.finish(names)
    return session


last: list[ShownSession] = []  # keeps the newest recording of wb.record() alive, named or not, until the next one


def latest() -> Recording | None:
    """The newest recording still in use."""
    return next((r for r in reversed(recent) if r.count), None)


def newest() -> Recording:
    """The newest recording. Raises RuntimeError if there is none."""
    recording = latest()
    if recording is None:
        raise RuntimeError("Nothing has been recorded yet. Run a cell under %%watch, or use `with wb.record():`.")
    return recording


def found(tensor: Tensor) -> Recording | None:
    """The newest recording that has every node which the tensor depends on."""
    plan = [] if tensor.node is None else tape.plan([tensor.node])
    for recording in reversed(recent):
        if tensor.node is None:
            if recording.find(tensor) >= 0:
                return recording
        elif recording.count and all(recording.row_of(node) >= 0 for node in plan):
            return recording
    return None
