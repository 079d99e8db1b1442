"""Answers about training: the loop under control, the health of parameters and activations, tensors over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..base.requests import answers, state
from ..recording import activations
from . import parameters, per_sample, series

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session


@answers(protocol.Train)
def train(session: Session, request: protocol.Train, client: Client) -> list[Sent]:
    """Pass the request on to the loop."""
    if session.training is None:
        raise protocol.Refused("There is no training loop here. Write for batch in wb.loop(data, model, optimizer) to get one.")
    session.training.wish(request.do)
    return [(session.training.message(request.id).to_json(), [])]


@state
def progress(session: Session) -> list[Sent]:
    """The progress of the loop, if the view controls one."""
    return [] if session.training is None else [(session.training.message().to_json(), [])]


@answers(protocol.AskModel)
def health(session: Session, request: protocol.AskModel, client: Client) -> list[Sent]:
    """The health of every parameter and every activation function in the recording."""
    r = session.recording
    optimizers = [] if session.busy() else [o for held in session.graph.optimizers if (o := held()) is not None]
    rows = parameters.parameters(r, session.gradient, optimizers)
    active, left = activations.activations(r)
    note = _which(session) + (f" Of activation functions the first {left} calls are left out." if left else "")
    told = protocol.ModelHealth(
        request.id, r.name, ", ".join(dict.fromkeys(type(m).__name__ for held in r.modules if (m := held()) is not None)),
        parameters.totals(rows), rows, active, note,
    )  # fmt: skip
    return [(told.to_json(), [])]


def _which(session: Session) -> str:
    stepper = session.stepper
    if stepper is None or stepper.done:
        return "Gradients are those in .grad now." if stepper is None else "Gradients are those of the finished pass."
    return f"Gradients after {stepper.index} of {stepper.total} steps."


@answers(protocol.AskSampleGradients)
def samples(session: Session, request: protocol.AskSampleGradients, client: Client) -> list[Sent]:
    """The gradient of one parameter, split by samples."""
    row = session.row(request.node)
    if session.busy():
        raise protocol.Refused("The kernel is running a cell. Gradients can be split by sample when the cell is done.")
    return [(per_sample.per_sample(session.recording, session.stepper, row, request.id).to_json(), [])]


@answers(protocol.AskSeries)
def over_time(session: Session, request: protocol.AskSeries, client: Client) -> list[Sent]:
    """One tensor over the steps of a training, or over the iterations of a loop."""
    message, buffers = series.series(session.recording, session.row(request.node), request.what, session.gradient, request.id)
    return [(message.to_json(), buffers)]
