"""Lessons: turn pages, and answer questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import protocol
from ..base.requests import answers, state

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session


def _lesson(session: Session) -> Any:
    if session.lesson is None:
        raise protocol.Refused("There is no lesson here. wb.teach.lesson(loss, [wb.teach.say(...), ...]) makes one.")
    return session.lesson


@answers(protocol.TurnPage)
def turn(session: Session, request: protocol.TurnPage, client: Client) -> list[Sent]:
    """Turn the page for all views that follow; or let this view leave the others, or rejoin them."""
    lesson = _lesson(session)
    (lesson.free.discard if request.follow else lesson.free.add)(id(client))
    if request.follow and request.to >= 0 and lesson.role != "follows":
        lesson.turn(request.to)
        lesson.tell(but=client)
        session.tell_others(client)
    moved = [] if session.stepper is None else [(session.stepped(client, None).to_json(), [])]
    return [*moved, (lesson.message(request.id).to_json(), [])]


@answers(protocol.AnswerQuestion)
def answer(session: Session, request: protocol.AnswerQuestion, client: Client) -> list[Sent]:
    """Judge an answer. This calls the author's function for the right answer, so it is refused while a cell runs."""
    lesson = _lesson(session)
    if session.busy():
        raise protocol.Refused("A cell is running. Answers are compared with its tensors when it has ended.")
    question = next((page for page in lesson.pages if getattr(page, "name", None) == request.name), None)
    if question is None:
        raise protocol.Refused(f"This lesson does not ask {request.name!r}.")
    try:
        if request.do == "reveal":
            question.reveal()
        elif request.do == "keep":
            question.bring_back(request.text, request.attempts, request.revealed)
        else:
            question.answer(request.text)
    except ValueError as error:
        raise protocol.Refused(str(error)) from error
    lesson.tell(but=client)
    return [(lesson.message(request.id).to_json(), [])]


@state
def current(session: Session) -> list[Sent]:
    """The lesson and modes, as messages for a view that has just opened."""
    found = [] if session.lesson is None else [(session.lesson.message().to_json(), [])]
    return found if session.modes is None else [*found, (session.modes.to_json(), [])]
