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
    if request.do == "pass":
        client.steps.clear()
        session.choose(request.to)
        return [(session.stepped(client, request.id).to_json(), [])]
    if stepper.mode == "live" and not stepper.is_record and session.busy():
        raise PassEnded("The kernel is running a cell. The pass can be stepped when the cell is done.")
    if request.do == "stop":
        stepper.halt()
        return [(session.stepped(client, request.id).to_json(), [])]
    try:
        waits = _go(session, stepper, request)
    except protocol.Refused:
        raise
    except Exception as error:
        session.tell_others(client)
        return [
            session.problem(request.id, f"The pass stopped: {said(error)}", _next_row(stepper)),
            (session.stepped(client, None).to_json(), []),
        ]
    if waits:
        client.waiting.append(request.id)  # answered when the engine is there
        return []
    session.tell_others(client)
    return [(session.stepped(client, request.id).to_json(), [])]


def _go(session: Session, stepper: Stepper, request: protocol.StepTo) -> bool:
    """Move the pass; whether a running cell has to take it there first."""
    if request.do in ("run", "back"):
        stepper.run(session.stops, back=request.do == "back")
        return False  # where it stops is told when it stops
    if request.do == "previous":
        stepper.previous(request.by)
        return False
    target = _target(stepper, request)
    if request.do == "next" and request.by == "op":
        stepper.next()
    else:
        stepper.to(target)
    return stepper.mode == "paused" and stepper.index < target


def _target(stepper: Stepper, request: protocol.StepTo) -> int:
    if request.do == "node":
        return stepper.place_of(request.to)
    if request.do == "index":
        return max(0, min(request.to, stepper.total))
    if request.do == "out":
        return stepper.places.out(stepper.index)
    if request.do == "first":
        return 0
    if request.do == "last":
        return stepper.total
    return stepper.places.after("op" if request.do == "into" else request.by, stepper.index)


def _next_row(stepper: Stepper) -> int:
    return stepper.plan[len(stepper.taken)] if len(stepper.taken) < stepper.total else -1
