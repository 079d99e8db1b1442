"""The implementation of `wb.describe` for tensors of the engine and of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import ref

from engine.core import versions
from engine.core.tensor import Tensor

from .. import inspector, torch_models
from ..graph import svg
from ..graph.graph import Graph
from ..inspector.statistics import Wanted, statistics
from ..recording.reasons import why_no_grad
from ..recording.recorder import is_parameter
from ..recording.recording import Recording, recent
from ..recording.retrace import retrace
from ..session.session import Session
from ..session.surface import ReportSession, ShownSession
from ..torch_models.naming import TorchGraph
from ..torch_models.recording import TorchRecording
from .report import Inspection


class TensorSession(ReportSession):
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
        if tokens is not None:
            self.vocabulary = inspector.Vocabulary(tokens)
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
        one, *mine = statistics([array] if grad is None else [array, grad], Wanted(histogram=True, exact=True))
        told = inspector.tokens(array, self.vocabulary or inspector.vocabulary.current)
        pairs = [] if told is None else zip(sum(told.texts, []), sum(told.ids, []), strict=True)
        tokens = " ".join(text or str(number) for text, number in pairs)
        placed = inspector.storage(array, self.named(row))
        layout = placed.words if placed and (placed.elements > array.size or placed.sharers) else ""
        gradient = mine[0].summary if mine else None
        return Inspection(r.names.get(row, ""), facts, one.summary, one.histogram, gradient, missing, tokens, layout)

    def stills(self) -> dict[str, str]:
        report = self.report()
        return {"text/plain": report.text, "image/svg+xml": svg.distribution(report.name, report.summary, report.histogram)}

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
        return None, why_no_grad(known, at)

    def forward(self, row: int) -> Any:
        return None if self._known is None else Session(self._known[0]).forward(self._known[1])

    def gone(self, row: int) -> str:
        tensor = self.recording.tensor(row)
        return "The tensor no longer exists: nothing references it." if tensor is None or not tensor.is_meta else inspector.NO_NUMBERS


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


class TorchTensorSession(TensorSession):
    """A session about one PyTorch tensor: its current values, and its gradient or PyTorch's reason why there is none."""

    def __init__(self, tensor: Any, names: Mapping[str, Any], tokens: Any = None) -> None:
        name = next((n for n, value in names.items() if value is tensor and not n.startswith("_")), "")
        known = next((r for r in reversed(recent) if isinstance(r, TorchRecording) and r.find(tensor) >= 0), None)
        self._known = None if known is None else (known, known.find(tensor))
        recording = TorchRecording(name or "tensor", keep=0)
        recent.forget(recording)
        recording.root = recording.leaf(tensor)
        graph = TorchGraph(recording)
        graph.view = "tensor"
        ShownSession.__init__(self, recording, graph)
        if tokens is not None:
            self.vocabulary = inspector.Vocabulary(tokens)
        self._sharers = []
        graph.finish({name: tensor} if name else {})


def inspected(tensor: Any, names: Mapping[str, Any], tokens: Any = None) -> TensorSession:
    """Open a session about one tensor; `tokens` is the vocabulary of its ids."""
    if torch_models.is_tensor(tensor):
        return TorchTensorSession(tensor, names, tokens)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"wb.describe takes a Tensor, got {type(tensor).__name__}")
    return TensorSession(tensor, names, tokens)
