"""Sessions returned by `wb.show`, `wb.inspect`, `wb.memory`, `wb.time`, `wb.check` and `wb.diff`, which also print themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import ref

from engine import nn
from engine.core import tape, versions
from engine.core.tensor import Tensor

from . import inspector, memory_use, timing
from .boxes import put_in_boxes
from .checks import look
from .comparing.difference import Difference
from .drawings import svg, text
from .graph import Graph
from .model_health import parameters
from .recorder import is_parameter
from .recording import Recording, recent
from .report import CheckReport, Inspection, MemoryReport, ModelReport, TimeReport
from .retrace import retrace
from .session import Session


class ShownSession(Session):
    """A session that prints itself as a table, for terminals."""

    def __repr__(self) -> str:
        return text.tree(self.graph.message(), self.gradient_texts())


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


class TensorSession(ShownSession):
    """A session about one tensor: its current values, and its gradient or the reason why there is none."""

    def __init__(self, tensor: Tensor, names: Mapping[str, Any], tokens: Any = None) -> None:
        name = next((n for n, value in names.items() if value is tensor and not n.startswith("_")), "")
        self._temporary = None if name else tensor  # nothing else references the result of an expression
        self._known = _known(tensor)
        recording = Recording(name or "tensor", keep=0)
        recent.forget(recording)  # not a recording of a program, so wb.show() and wb.memory() skip it
        made = None if tensor.node is None else tensor.node.op
        kind = "parameter" if is_parameter(type(tensor)) else "input" if tensor.node is None else "leaf" if made is None else "op"
        array = tensor.array
        recording.root = recording.append(made, kind, array.shape, array.dtype, array.nbytes, tensor.node is not None, tensor=ref(tensor))
        recording.versions[recording.root] = versions.version(array)
        if name:
            recording.names[recording.root] = name
        graph = Graph(recording)
        graph.view = "tensor"
        super().__init__(recording, graph)
        self.vocabulary = None if tokens is None else inspector.Vocabulary(tokens)
        owner = versions.storage(array)
        shared = {name: x for name, x in names.items() if isinstance(x, Tensor) and x is not tensor and not name.startswith("_")}
        self._sharers = [(name, ref(x)) for name, x in shared.items() if versions.storage(x.array) is owner]
        graph.finish(names)

    def report(self) -> Inspection:
        """A printable report on the tensor."""
        r, row = self.recording, self.recording.root
        array = r.value(row)
        if array is None:
            raise RuntimeError(self.gone(row))
        facts = inspector.facts(array, r.tensor(row), r, row)
        grad, missing = self.gradient(row)
        summary, histogram = inspector.summary(array), inspector.histogram(array, exact=True)
        told = inspector.tokens(array, self.vocabulary or inspector.vocabulary.current)
        pairs = [] if told is None else zip(sum(told.texts, []), sum(told.ids, []), strict=True)
        tokens = " ".join(text or str(number) for text, number in pairs)
        placed = inspector.storage(array, self.named(row))
        layout = placed.words if placed and (placed.elements > array.size or placed.sharers) else ""
        mine = None if grad is None else inspector.summary(grad)
        return Inspection(r.names.get(row, ""), facts, summary, histogram, mine, missing, tokens, layout)

    def stills(self) -> dict[str, str]:
        report = self.report()
        return {"text/plain": repr(report), "image/svg+xml": svg.distribution(report.name, report.summary, report.histogram)}

    def headline(self) -> str:
        return self.report().summary.text

    def named(self, row: int) -> Iterator[tuple[int, str, Any]]:
        """The variables that share the tensor's storage."""
        return ((-1, name, held.array) for name, alive in self._sharers if (held := alive()) is not None)

    def gradient(self, row: int) -> tuple[Any, str]:
        tensor = self.recording.tensor(row)
        if tensor is not None and tensor._grad is not None:
            return tensor._grad.array, ""
        known, at = self._known if self._known is not None else (self.recording, row)
        return None, inspector.why_no_grad(known, at)

    def forward(self, row: int) -> Any:
        return None if self._known is None else Session(self._known[0]).forward(self._known[1])

    def gone(self, row: int) -> str:
        tensor = self.recording.tensor(row)
        return "The tensor is gone: nothing refers to it any more." if tensor is None or not tensor.is_meta else inspector.NO_NUMBERS


def _known(tensor: Tensor) -> tuple[Recording, int] | None:
    """The recording, and its row, of how the tensor was made; retraced from the tape if it was not recorded."""
    found = next((r for r in reversed(recent) if r.find(tensor) >= 0), None)
    if found is not None:
        return found, found.find(tensor)
    if tensor.node is None or tensor.node.op is None:
        return None
    recording = retrace([tensor.node], [tensor], keep=0)
    recent.forget(recording)
    return recording, recording.root


def inspected(tensor: Tensor, names: Mapping[str, Any], tokens: Any = None) -> TensorSession:
    """Open a session about one tensor; `tokens` is the vocabulary of its ids."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"wb.inspect takes a Tensor, got {type(tensor).__name__}")
    return TensorSession(tensor, names, tokens)


class MemorySession(ShownSession):
    """A session that opens on the memory of a recording."""

    def report(self) -> MemoryReport:
        """The memory as text."""
        message, _ = memory_use.answer(self.recording, None, self.graph)
        return MemoryReport(memory_use.report(self.recording, self.graph), message)

    def stills(self) -> dict[str, str]:
        return {**super().stills(), "text/plain": self.report().text}


class TimeSession(ShownSession):
    """A session that opens on the times of a recording."""

    def report(self) -> TimeReport:
        """The times as text."""
        return TimeReport(timing.report(self.recording, self.graph))

    def stills(self) -> dict[str, str]:
        return {**super().stills(), "text/plain": self.report().text}


class CheckedSession(ShownSession):
    """A session that opens on the findings of the checks, and prints them in a terminal."""

    def report(self) -> CheckReport:
        """The findings as text."""
        return CheckReport(look.report(look.Looked(self.findings or [], self.unsure), self.recording.title), self.findings or [])

    def stills(self) -> dict[str, str]:
        return {**super().stills(), "text/plain": self.report().text}

    def __repr__(self) -> str:
        return self.report().text


class ModelSession(ShownSession):
    """A session that opens on a model's parameters, and prints them in a terminal."""

    def report(self) -> ModelReport:
        """Every parameter with its gradient, and any problem with it."""
        rows = parameters.parameters(self.recording, self.gradient, [])
        return ModelReport(self.recording.title, parameters.totals(rows), rows)

    def stills(self) -> dict[str, str]:
        return {**super().stills(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return repr(self.report())


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
