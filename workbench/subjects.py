"""Find the recording that `wb.check`, `wb.memory`, `wb.time` and `wb.diff` report on, of the engine or of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from weakref import ref

from engine.core.tensor import Tensor
from engine.nn import Module
from engine.nn.parameter import is_lazy

from . import torch_models
from .comparing.difference import Difference
from .graph import Graph
from .protocol import View
from .recorder import is_parameter
from .recording import Recording, recent
from .surface import CheckedSession, DifferenceSession, MemorySession, ModelSession, ShownSession, TimeSession, newest, opened
from .torch_models.naming import TorchGraph
from .torch_models.recording import TorchRecording
from .torch_models.watch import TensorWatch
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
        raise RuntimeError("No recording knows this tensor, and it has no grad_fn, so there is no graph behind it to look at.")
    name = next((n for n, value in names.items() if value is tensor and not n.startswith("_")), "")
    session = ShownSession(empty())
    TensorWatch(session, tensor, lambda: names, name).close()
    return session.recording


def remembered(what: Any, names: Mapping[str, Any]) -> MemorySession:
    """A memory session on the recording of `what`."""
    return _opened(MemorySession, recording_of(what, names), "memory", names)


def timed(what: Any, names: Mapping[str, Any]) -> TimeSession:
    """A time session on the recording of `what`."""
    return _opened(TimeSession, recording_of(what, names), "time", names)


def checked(what: Any, names: Mapping[str, Any], thorough: bool) -> CheckedSession:
    """A session with the findings about the recording of `what`; by default also about code that ended before its first op."""
    ended = next((r for r in reversed(recent) if r.count or r.witness.ended is not None), None) if what is None else None
    session = _opened(CheckedSession, ended or recording_of(what, names), "checks", names)
    session.check(thorough)
    return session


def compared(before: Any, after: Any, names: Mapping[str, Any]) -> DifferenceSession:
    """Compare two recordings in one graph. Raises RuntimeError if there are not two."""
    if before is None and after is None:
        made = [r for r in recent if r.count]
        if len(made) < 2:
            raise RuntimeError(f"wb.diff() compares the last two recordings, and there {'is only one' if made else 'is none'} yet.")
        return DifferenceSession(Difference(made[-2], made[-1]), names)
    return DifferenceSession(Difference(recording_of(before, names), recording_of(after, names)), names)


def ran(module: Any, names: Mapping[str, Any]) -> ShownSession:
    """A session on the latest run of a module."""
    return _opened(ShownSession, recording_of(module, names), "graph", names)


def model(module: Any, names: Mapping[str, Any]) -> ModelSession:
    """A session on the parameters of a module: in its latest run, or by themselves if none was recorded."""
    return _opened(ModelSession, latest_run(module) or _alone(module), "model", names)


def _opened(kind: type[S], recording: Recording, view: View, names: Mapping[str, Any]) -> S:
    """A session that opens on that tab, with the user's names if the code has ended."""
    session = kind(recording, TorchGraph(recording) if isinstance(recording, TorchRecording) else Graph(recording))
    session.graph.view = view
    if not recording.live:
        session.graph.finish(names)
    return session


def _alone(module: Any) -> Recording:
    """A recording of only the parameters of a module that has not been recorded."""
    foreign = torch_models.is_module(module)
    recording = TorchRecording(type(module).__name__, keep=0) if foreign else Recording(type(module).__name__, keep=0)
    recent.forget(recording)
    recording.modules.append(ref(module))
    for p in module.parameters():
        if isinstance(recording, TorchRecording):
            recording.leaf(p)
        elif not is_lazy(p):
            kind = "parameter" if is_parameter(type(p)) else "leaf"
            recording.append(None, kind, p.array.shape, p.array.dtype, p.array.nbytes, p.requires_grad, tensor=ref(p))
    return recording
