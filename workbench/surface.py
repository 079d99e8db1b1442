"""What stands behind `wb.show`, `wb.step`, `wb.inspect` and `wb.memory`: finding or making the recording that answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine import tape
from engine.tensor import Tensor

from . import inspector, memory_use, text
from .graph import Graph
from .recorder import Recorder
from .recording import Recording, recent
from .report import Inspection, MemoryReport
from .retrace import retrace
from .session import Session


class ShownSession(Session):
    """A session that prints itself as a table, for terminals."""

    def __repr__(self) -> str:
        return text.table(self.graph.message())


class RecordedSession(ShownSession):
    """A session whose recording is being made."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder.recording)
        self.recorder = recorder


def opened(tensor: Tensor | None, names: Mapping[str, Any]) -> ShownSession:
    """A session on the recording that knows everything `tensor` depends on; or on one made from the tape."""
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
    session = ShownSession(recording, Graph(recording))
    if tensor is not None:
        row = -1 if tensor.node is None else recording.row_of(tensor.node)
        recording.root = row if row >= 0 else recording.find(tensor)
    if recording.live:
        session.graph.name(names)
    else:
        session.graph.finish(names)
    return session


def latest() -> Recording | None:
    """The newest recording that somebody still looks at."""
    return next((r for r in reversed(list(recent.values())) if r.count), None)


def found(tensor: Tensor) -> Recording | None:
    """The newest recording that has every node which the tensor depends on."""
    plan = [] if tensor.node is None else tape.plan([tensor.node])
    for recording in reversed(list(recent.values())):
        if tensor.node is None:
            if recording.find(tensor) >= 0:
                return recording
        elif recording.count and all(recording.row_of(node) >= 0 for node in plan):
            return recording
    return None


def inspected(tensor: Tensor, names: Mapping[str, Any]) -> Inspection:
    """Everything about one tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"wb.inspect takes a Tensor, got {type(tensor).__name__}")
    name = next((n for n, value in names.items() if value is tensor and not n.startswith("_")), "")
    recording = next((r for r in reversed(list(recent.values())) if r.find(tensor) >= 0), None)
    row = -1 if recording is None else recording.find(tensor)
    facts = inspector.facts(tensor.array, tensor, recording, row)
    summary = inspector.summary(tensor.array)
    histogram = inspector.histogram(tensor.array, exact=True)
    if tensor.grad is not None:
        return Inspection(name, facts, summary, histogram, inspector.summary(tensor.grad.array), "")
    if recording is None:
        recording, row = _alone(tensor)
    return Inspection(name, facts, summary, histogram, None, inspector.why_no_grad(recording, row, recording.passes))


def _alone(tensor: Tensor) -> tuple[Recording, int]:
    """A recording of just this tensor, for one that nothing else knows."""
    from weakref import ref

    if tensor.node is not None and tensor.node.op is not None:
        recording = retrace([tensor.node], [tensor], keep=0)
        return recording, recording.root
    recording = Recording(keep=0)
    kind = "input" if tensor.node is None else "leaf"
    row = recording.append(
        None, kind, tensor.array.shape, tensor.array.dtype, tensor.array.nbytes, tensor.node is not None, tensor=ref(tensor)
    )
    return recording, row


def remembered() -> MemoryReport:
    """The memory of the newest recording."""
    recording = latest()
    if recording is None:
        raise RuntimeError("Nothing has been recorded yet. Run a cell under %%watch, or use `with wb.record():`.")
    message, _ = memory_use.answer(recording, None, Graph(recording))
    return MemoryReport(memory_use.report(recording), message)
