"""The backward pass: stepping through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import protocol
from ..stepper import PassEnded, Stepper, said

if TYPE_CHECKING:
    from ..session import Client, Sent, Session


def step(session: Session, request: protocol.StepTo, client: Client) -> list[Sent]:
    """The pass goes where the view wants it."""
    stepper = session.stepper
    if stepper is None:
        raise PassEnded("There is no backward pass to step through. Use wb.step(loss) to get one.")
    if stepper.mode == "live" and session.busy():
        raise PassEnded("The kernel is running a cell. The pass can be stepped when the cell is done.")
    try:
        target = _target(stepper, request)
        if request.do == "previous":
            stepper.previous()
        elif request.do == "next":
            stepper.next()
        else:
            stepper.to(target)
    except PassEnded:
        raise
    except Exception as error:
        session.tell_others(client)
        return [
            session.problem(request.id, f"The pass stopped: {said(error)}", _next_row(stepper)),
            (session.stepped(client, None).to_json(), []),
        ]
    if stepper.mode == "paused" and stepper.index < target:
        client.waiting.append(request.id)  # answered when the engine is there
        return []
    session.tell_others(client)
    return [(session.stepped(client, request.id).to_json(), [])]


def _target(stepper: Stepper, request: protocol.StepTo) -> int:
    if request.do == "node":
        return stepper.place_of(request.to)
    if request.do == "index":
        return max(0, min(request.to, stepper.total))
    return {"next": min(stepper.index + 1, stepper.total), "previous": stepper.index - 1, "first": 0, "last": stepper.total}[request.do]


def _next_row(stepper: Stepper) -> int:
    return stepper.plan[len(stepper.taken)] if len(stepper.taken) < stepper.total else -1
