"""Memory: current use, use at any moment and why, and predictions of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import memory_use, protocol
from ..base.requests import answers
from ..recording.recording import recent
from . import Log, alive, device, living, predict, timeline

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session


@answers(protocol.AskMemory)
def memory(session: Session, request: protocol.AskMemory, client: Client) -> list[Sent]:
    """The memory of the recorded program now and over its events."""
    message, buffers = memory_use.answer(session.recording, request.id, session.graph)
    return [(message.to_json(), buffers)]


@answers(protocol.AskWindow)
def window(session: Session, request: protocol.AskWindow, client: Client) -> list[Sent]:
    """A part of the time line in greater detail."""
    log = Log(session.recording)
    if not 0 <= request.first < request.last <= log.count:
        raise protocol.BadMessage(f"There are no events {request.first} to {request.last}; this recording has {log.count}.")
    line, buffers = timeline.line(log, session.graph, request.first, request.last, request.by)
    return [(protocol.Window(request.id, session.recording.name, line).to_json(), buffers)]


@answers(protocol.AskMoment)
def moment(session: Session, request: protocol.AskMoment, client: Client) -> list[Sent]:
    """The memory that was alive after one event."""
    try:
        message = living.moment(Log(session.recording), request.id, session.graph, request.event)
    except IndexError as error:
        raise protocol.Refused(str(error)) from error
    return [(message.to_json(), [])]


@answers(protocol.AskWhy)
def why(session: Session, request: protocol.AskWhy, client: Client) -> list[Sent]:
    """What keeps a block alive: chains from variables, outputs and other holders. Runs no code of the user's."""
    return [(alive.of_block(session.recording, request.id, request.block).to_json(), [])]


@answers(protocol.AskPredictions)
def predictions(session: Session, request: protocol.AskPredictions, client: Client) -> list[Sent]:
    """Predict the peak with no_grad, checkpoints, half precision, or a smaller batch."""
    return [(predict.predictions(session.recording, request.id, session.graph, request.node).to_json(), [])]


@answers(protocol.AskBytes)
def bytes_of_kernel(session: Session, request: protocol.AskBytes, client: Client) -> list[Sent]:
    """A few numbers about the kernel's newest recording, whichever one the view shows, and about the machine."""
    newest = next((r for r in reversed(recent) if r.count), None)
    if newest is not None:
        newest.settle()
    live, peak, running = (0, 0, False) if newest is None else (newest.now, newest.peak, newest.live)
    name = "" if newest is None else newest.name
    return [(protocol.Bytes(request.id, name, live, peak, running, device.resident(), device.gpus(), session.waits).to_json(), [])]
