"""Dispatch table from requests to their handlers: one module for each subject, one function for each request.

A handler takes the session, the request and the requesting view, and returns the messages for that view. It is called with the session's
lock held. A `protocol.Refused` with a sentence is shown as a Problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import protocol
from . import breakpoints, checks, compare, export, faces, memory, model, overlay, steps, teach, tensor, time, training, whatif, whole

ANSWERS: Mapping[type[protocol.ToKernel], Callable[..., list[tuple[dict[str, Any], list[bytes]]]]] = {
    protocol.Ready: whole.ready,
    protocol.ToSidePanel: whole.to_side_panel,
    protocol.StepTo: steps.step,
    protocol.AskNorms: steps.norms,
    protocol.Train: training.train,
    protocol.TurnPage: teach.turn,
    protocol.AnswerQuestion: teach.answer,
    protocol.Break: breakpoints.change,
    protocol.Inspect: tensor.inspect,
    protocol.AskElement: tensor.element,
    protocol.AskCompare: compare.compare,
    protocol.AskModel: model.health,
    protocol.AskSampleGradients: model.samples,
    protocol.AskSeries: model.over_time,
    protocol.AskMemory: memory.memory,
    protocol.AskBytes: memory.bytes_of_kernel,
    protocol.AskWindow: memory.window,
    protocol.AskMoment: memory.moment,
    protocol.AskWhy: memory.why,
    protocol.AskPredictions: memory.predictions,
    protocol.AskFindings: checks.thorough,
    protocol.AskMetric: overlay.metric,
    protocol.AskFaces: faces.shown,
    protocol.AskExport: export.export,
    protocol.AskTiming: time.times,
    protocol.AskLocal: whatif.local_derivatives,
    protocol.AskSlopes: whatif.slopes,
    protocol.AskFanOut: whatif.fan_out,
    protocol.AskPaths: whatif.contributions,
    protocol.CheckRule: whatif.check_rule,
    protocol.ForkPass: whatif.fork,
    protocol.AskEdit: whatif.editable,
    protocol.Rerun: whatif.again,
}
