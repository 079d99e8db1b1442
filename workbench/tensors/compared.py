"""Pinned tensors: pin, unpin and compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..base.requests import answers, greeting
from .pins import BOARD, earlier

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session


@answers(protocol.AskCompare)
def compare(session: Session, request: protocol.AskCompare, client: Client) -> list[Sent]:
    """Change the pins, notify other views, and answer with the comparison."""
    if request.do == "pin":
        _pin(session, request)
    elif request.do == "pin earlier":
        _pin_earlier(session, request)
    elif request.do == "unpin":
        BOARD.remove(request.pin)
    elif request.do == "base":
        BOARD.compare_with(request.pin)
    elif request.do == "clear":
        BOARD.clear()
    answer = compared(session, request.id)
    if request.do != "show":
        message, buffers = answer
        for other in session.clients:
            if other is not client:
                other.send({**message, "re": None}, buffers)
    return [answer]


def compared(session: Session, re: int | None) -> Sent:
    """The pins, as a message for a view of this session."""
    pins, buffers = BOARD.told(session.recording)
    return protocol.Compared(re, session.recording.name, pins, BOARD.base).to_json(), buffers


def _pin(session: Session, request: protocol.AskCompare) -> None:
    r, row = session.recording, session.row(request.node)
    array, missing = session.array(row, request.what)
    if array is None:
        raise protocol.Refused(f"There is nothing to pin: {missing}")
    stepper = session.stepper
    moment = ""
    if request.what == "grad":
        stepping = stepper is not None and stepper.index and row in stepper.plan
        moment = f"gradient, step {stepper.index} of {stepper.total}" if stepping and stepper is not None else "gradient"
    BOARD.add(r, row, request.what, array, moment)


def _pin_earlier(session: Session, request: protocol.AskCompare) -> None:
    found = earlier(session.recording, session.row(request.node))
    if found is None:
        raise protocol.Refused("No earlier recording that is still there has a tensor of this name whose value is known.")
    other, row = found
    if request.what == "grad":
        tensor = other.tensor(row)
        if tensor is None or tensor._grad is None:
            raise protocol.Refused(f"Its gradient of {other.title or 'that recording'} is not known any more.")
        BOARD.add(other, row, "grad", tensor._grad.array, "gradient")
    else:
        BOARD.add(other, row, "value", other.value(row))


@greeting
def pinned(session: Session) -> list[Sent]:
    """The pins, if there are any."""
    return [compared(session, None)] if BOARD.pins else []
