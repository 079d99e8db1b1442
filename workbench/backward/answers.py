"""Step through the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from engine.backends.batch import Batched

from .. import protocol
from ..base.requests import answers
from ..inspector import whole
from . import offers
from .conditions import fetched, measure
from .stepper import PassEnded, Stepper, said

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session


@answers(protocol.StepTo)
def step(session: Session, request: protocol.StepTo, client: Client) -> list[Sent]:
    """Move the pass as the view requests."""
    if request.do == "begin":
        _begin(session, session.row(request.to))
        return [(session.stepped(client, request.id).to_json(), [])]
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
        client.waiting.append(request)  # answered when the engine has reached it
        return []
    session.tell_others(client)
    return [(session.stepped(client, request.id).to_json(), [])]


def _begin(session: Session, row: int) -> None:
    """Run the offered pass; if another view has begun one meanwhile, that pass is shown."""
    if session.busy():
        raise PassEnded("The kernel is running a cell. The pass can begin when the cell is done.")
    if session.stepper is None:
        session.step_through(offers.begin(session.recording, session.graph, row))


def _go(session: Session, stepper: Stepper, request: protocol.StepTo) -> bool:
    """Move the pass; return whether a running cell has to take it there first."""
    if request.do in ("run", "back"):
        stepper.run(session.stops, back=request.do == "back")
        return False  # the stop is reported when it happens
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


MOST = 1000  # maximum number of steps in one answer
_NORM = {"norm"}


@answers(protocol.AskNorms)
def norms(session: Session, request: protocol.AskNorms, client: Client) -> list[Sent]:
    """The sizes of the gradients of some steps; on a GPU all are fetched in one transfer."""
    stepper = session.stepper
    if stepper is None:
        raise PassEnded("There is no backward pass to step through. Use wb.step(loss) to get one.")
    first = max(1, request.first)
    last = min(request.last, len(stepper.taken), first + MOST - 1)
    came: list[int] = []
    sizes: list[Any] = []  # a number, or an array still to be measured
    of: list[tuple[int, int, int]] = []  # for each contribution: step, target, whether it is a scalar
    given: list[Any] = []
    for index in range(first, last + 1):
        told = stepper.sizes(index)
        came.append(0 if told is None else 2 if _scalar(told[0]) else 1)
        sizes.append(0.0 if told is None else told[0])
        for target, gradient, total in () if told is None else told[1]:
            of.append((index, target, int(_scalar(gradient))))
            given += gradient, total
    numbers = iter(_numbers([*sizes, *given]))
    upstream = [next(numbers) for _ in sizes]
    pairs = [(next(numbers), next(numbers)) for _ in of]
    columns = [
        numpy.array(came, numpy.uint8), numpy.array(upstream, numpy.float32),
        *(numpy.array([one[k] for one in of], numpy.uint8 if k == 2 else numpy.int32) for k in range(3)),
        *(numpy.array([pair[k] for pair in pairs], numpy.float32) for k in range(2)),
    ]  # fmt: skip
    buffers = [protocol.Buffer(i, column.dtype.name, [column.size]) for i, column in enumerate(columns)]
    message = protocol.Norms(request.id, session.recording.name, session.number, first, *buffers)
    return [(message.to_json(), [column.tobytes() for column in columns])]


def _scalar(gradient: Any) -> bool:
    return len(gradient.shape) == 0 and not isinstance(gradient, Batched)


def _numbers(gradients: list[Any]) -> list[float]:
    """The value of each scalar, or the norm of each other array or summary."""
    arrays = [whole(g) for g in gradients if not isinstance(g, (float, protocol.Summary))]
    with numpy.errstate(over="ignore"):
        measured = iter(fetched([(_NORM, measure(a, _NORM) if len(a.shape) else [abs(a) if a.dtype.kind == "c" else a]) for a in arrays]))
    found = []
    for g in gradients:
        if isinstance(g, float):
            found.append(g)
        elif not isinstance(g, protocol.Summary):
            found.append(next(measured)["norm"])
        elif not g.shape and g.values and g.dtype[:7] != "complex":
            found.append(float(g.values[0]))
        else:
            found.append(g.norm if g.norm is not None else numpy.nan if g.nan else numpy.inf)
    return found
