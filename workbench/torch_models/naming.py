"""The user's names for PyTorch tensors and modules, and the graph of a PyTorch recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..graph.graph import Graph, arrange
from .loaded import is_module, is_tensor, torch
from .recording import TorchRecording


class TorchGraph(Graph):
    """The Graph of a TorchRecording, named after the torch modules and tensors in the user's namespace."""

    recording: TorchRecording

    def finish(self, namespace: Mapping[str, Any] | None = None) -> None:
        self.name(namespace)
        r = self.recording
        called = {id(value): name for name, value in (namespace or {}).items() if is_module(value) and not name.startswith("_")}
        outermost = [(i, s) for i, s in enumerate(r.scopes) if s.kind == "module" and s.name == s.label]
        self.scope_names = {i: called[s.subject] for i, s in outermost if s.subject in called}
        self._groups, self._group = arrange(r, self.sources, self.scope_names)

    def name(self, namespace: Mapping[str, Any] | None) -> None:
        r = self.recording
        super().name({})
        for tensor, name in (*_in_modules(r, namespace or {}), *_in_namespace(namespace or {})):
            row = r.find(tensor)
            if row < 0 and tensor.grad_fn is not None:
                row = r.row_of(tensor.grad_fn)
                if row >= 0 and r.ref[row] is None:
                    r.stands(tensor, row, keep=False)
            if row >= 0 and (row not in r.names or not isinstance(tensor, torch().nn.Parameter)):  # keep a parameter's path
                r.names[row] = name


def _in_modules(recording: TorchRecording, namespace: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield parameters and buffers with their paths, prefixed with the model's variable if there are several models."""
    models = {id(m): m for held in recording.modules if (m := held()) is not None}
    models |= {id(value): value for name, value in namespace.items() if is_module(value) and not name.startswith("_")}
    inner = {id(child) for m in models.values() for child in m.modules() if child is not m}
    outer = [m for key, m in models.items() if key not in inner and _known(recording, m)]
    called = {id(value): name for name, value in namespace.items() if is_module(value) and not name.startswith("_")}
    for model in outer:
        lead = f"{called.get(id(model), type(model).__name__)}." if len(outer) > 1 else ""
        for path, tensor in (*model.named_parameters(), *model.named_buffers()):
            yield tensor, lead + path


def _known(recording: TorchRecording, model: Any) -> bool:
    return any(recording.find(tensor) >= 0 for tensor in (*model.parameters(), *model.buffers()))


def _in_namespace(namespace: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    inner, own = [], []
    for name, value in list(namespace.items()):
        if name.startswith("_") or name in ("In", "Out"):
            continue
        if is_tensor(value):
            own.append((value, name))
        elif isinstance(value, (list, tuple)) and len(value) <= 1000:
            inner += [(x, f"{name}[{i}]") for i, x in enumerate(value) if is_tensor(x)]
        elif type(value) is dict and len(value) <= 1000:
            inner += [(x, f"{name}[{key!r}]") for key, x in value.items() if is_tensor(x)]
    yield from inner
    yield from own  # last, so that a variable's name takes precedence over an index into a list
