"""Find the recording that `wb.check`, `wb.memory`, `wb.profile` and `wb.diff` report on, of the engine or of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from engine.core.tensor import Tensor
from engine.nn import Module

from .. import torch_models
from ..graph.graph import Graph
from ..protocol import View
from ..recording.recording import Recording, recent
from ..session.surface import ShownSession, newest, opened
from ..torch_models.naming import TorchGraph
from ..torch_models.recording import TorchRecording
from ..torch_models.watch import TensorWatch
from .watching import empty, shown

S = TypeVar("S", bound=ShownSession)


def recording_of(what: Any, names: Mapping[str, Any]) -> Recording:
    """The recording of a tensor, a module, a view, or the `r` of `with wb.record() as r`; the newest one for None.

    Raises RuntimeError if there is none, TypeError for anything else.
    """
    if what is None:
        return newest()
    if isinstance(what, Tensor):
        return opened(what, names).recording
    if torch_models.is_tensor(what):
        return _of_torch(what, names)
    if is_module(what):
        found = latest_run(what)
        if found is None:
            raise RuntimeError(
                f"{type(what).__name__} has not run under a watch yet. Call it in a cell under %%watch, or in `with wb.watch(model): ...`."
            )
        return found
    recording = getattr(getattr(what, "session", what), "recording", what)
    if not isinstance(recording, Recording):
        raise TypeError(f"Expected a tensor, a module, a view, or what `with wb.record() as r` gives, not {type(what).__name__}")
    return recording


def is_module(what: Any) -> bool:
    """Whether it is a module of the engine or of PyTorch."""
    return isinstance(what, Module) or torch_models.is_module(what)


def latest_run(module: Any) -> Recording | None:
    """The newest recording in which the module ran, by itself or inside another, or that was made from its graph."""
    own = list(module.parameters())

    def ran(r: Recording) -> bool:
        if any(inner is module for held in r.modules if (outer := held()) is not None for inner in outer.modules()):
            return True
        return isinstance(r, TorchRecording) is torch_models.is_module(module) and any(r.find(p) >= 0 for p in own)

    return next((r for r in reversed(recent) if r.count and ran(r)), None)


def _of_torch(tensor: Any, names: Mapping[str, Any]) -> Recording:
    known = shown(tensor, names)
    if known is not None:
        return known.recording
    if tensor.grad_fn is None:
        raise RuntimeError("No recording knows this tensor, and it has no grad_fn, so it has no graph.")
    name = next((n for n, value in names.items() if value is tensor and not n.startswith("_")), "")
    session = ShownSession(empty())
    TensorWatch(session, tensor, lambda: names, name).close()
    return session.recording


def ran(module: Any, names: Mapping[str, Any]) -> ShownSession:
    """A session on the latest run of a module."""
    return opened_on(ShownSession, recording_of(module, names), "graph", names)


def opened_on(kind: type[S], recording: Recording, view: View, names: Mapping[str, Any]) -> S:
    """A session that opens on that tab, with the user's names if the code has ended."""
    session = kind(recording, TorchGraph(recording) if isinstance(recording, TorchRecording) else Graph(recording))
    session.graph.view = view
    if not recording.live:
        session.graph.finish(names)
    return session
