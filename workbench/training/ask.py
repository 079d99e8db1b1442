"""The implementation of `wb.describe` for a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import ref

from engine.nn.parameter import is_lazy

from .. import torch_models
from ..recording.recorder import is_parameter
from ..recording.recording import Recording, recent
from ..session.surface import ReportSession
from ..subjects.recordings import latest_run, opened_on
from ..torch_models.recording import TorchRecording
from . import parameters
from .report import ModelReport


class ModelSession(ReportSession):
    """A session that opens on a model's parameters."""

    def report(self) -> ModelReport:
        rows = parameters.parameters(self.recording, self.gradient, [])
        return ModelReport(self.recording.title, parameters.totals(rows), rows)


def model(module: Any, names: Mapping[str, Any]) -> ModelSession:
    """A session on the parameters of a module: in its latest run, or by themselves if none was recorded."""
    return opened_on(ModelSession, latest_run(module) or _alone(module), "model", names)


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
