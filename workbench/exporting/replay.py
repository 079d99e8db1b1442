"""Export of a session as one HTML file: the same view with precomputed answers. It needs neither a kernel nor a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from .. import protocol
from ..backward.stepper import Stepper
from ..inspector import bytes_text, count_text
from . import page
from .conversation import PASS, Conversation, Room, drawings, passage
from .pack import Pack
from .privacy import without_path

if TYPE_CHECKING:
    from ..session.session import Session

BUDGET = 8_000_000  # bytes of data
SECONDS = 30.0  # to compute the answers
FORMAT, VERSION = "gradient-workbench replay", 2


@dataclass(frozen=True)
class Replay:
    """The content of a replay, for a page of its own or for a page of a site."""

    title: str
    facts: list[str]  # what it contains and what it lacks, in sentences
    left: str  # the sentence on what was left out; "" if nothing was
    data: bytes
    stills: dict[str, str]  # what a page without JavaScript shows, by MIME type

    def html(self) -> str:
        """Return it as a page of its own."""
        return page.html(self.title, self.facts, self.data, self.stills)


def replay(session: Session, paths: bool = False, budget: int = BUDGET, seconds: float = SECONDS) -> Replay:
    """Ask the session all that a view can ask, and keep the answers.

    Raises RuntimeError while the recorded code still runs, or while a cell waits inside its backward pass.
    """
    if session.recording.live:
        raise RuntimeError("The recorded code still runs. Export it in the next cell, or after the `with` block.")
    with session.lock:
        quiet = still(session)
        stepper = quiet.stepper
        if stepper is not None and stepper.mode == "paused":
            raise RuntimeError("A cell waits inside this backward pass. Let it end, then export.")
        pack = Pack(paths)
        room = Room(pack, budget, seconds)
        index: dict[str, Any] = {"shown": quiet.number, "scenes": _scenes(quiet, room)}
        left = room.sentence()
        facts = [headline(session), *([left] if left else [])]
        title = quiet.recording.title or quiet.recording.names.get(quiet.recording.root, "") or "Gradient Workbench"
        if not paths:
            title, facts = without_path(title), list(map(without_path, facts))
        index |= {"format": FORMAT, "version": VERSION, "protocol": protocol.VERSION, "title": title, "facts": facts}
        index |= {"recording": quiet.recording.name, "saved": date.today().isoformat(), "left": left}
        index |= {"budget": bytes_text(budget)}
        stills = quiet.stills()
        if not paths:
            stills = {kind: without_path(text) for kind, text in stills.items()}
        return Replay(title, facts, left, pack.closed(index), stills)


def _scenes(session: Session, room: Room) -> list[dict[str, Any] | None]:
    """For each pass, the answers to all requests, the most important first; None for passes that did not fit."""
    passes: list[Stepper | None] = [*(session.passes or [session.stepper])]
    scenes: list[dict[str, Any] | None] = [None] * len(passes)
    deeper: list[tuple[Conversation, Stepper | None]] = []
    for number in sorted(range(len(passes)), key=lambda number: number != session.number):  # the shown pass first
        room.asked[PASS] += 1
        if number != session.number and not room.is_left():
            room.left[PASS] += 1
            continue
        one, stepper = copy(session), passes[number]
        if stepper is not None:
            one.recording, one.graph, one.stepper = stepper.recording, stepper.graph, stepper
        conversation = Conversation(one, room)
        with put_back(stepper):
            scenes[number] = _asked(conversation, stepper)
            if number == session.number:
                conversation.deeper(stepper)
        deeper.append((conversation, stepper))
    for conversation, stepper in deeper[1:]:
        with put_back(stepper):
            conversation.deeper(stepper)
    return scenes


def _asked(conversation: Conversation, stepper: Stepper | None) -> dict[str, Any]:
    """The answers for stepping through the pass and inspecting every node."""
    here = 0 if stepper is None else stepper.index
    if stepper is not None and not stepper.is_record:
        stepper.prepare()  # an error ends the pass early and is reported there
    shown = None if stepper is None else passage(stepper, conversation) | {"start": here}
    if stepper is not None:
        stepper.to(here)
    opening = conversation.opening()
    pages = conversation.pages(stepper)
    drawings(conversation)
    conversation.whole()
    conversation.gradients(stepper)
    conversation.passing(stepper)
    return {"opening": opening, "pages": pages, "pass": shown, "answers": conversation.answers}


@contextmanager
def put_back(stepper: Stepper | None) -> Iterator[None]:
    """Restore the position of the pass at exit."""
    if stepper is None:
        yield
        return
    here, stop = stepper.index, stepper.stop
    try:
        yield
    finally:
        stepper.to(here)
        stepper.stop = stop


def still(session: Session) -> Session:
    """A copy of the session without clients, so that no view sees its pass move, and not busy, since the exporting cell is running."""
    quiet = copy(session)
    quiet.clients, quiet.flags = [], dict(session.flags)
    if session.stepper not in session.passes:
        quiet.passes = []
    quiet.training = None  # a loop cannot be played from a file
    quiet.busy = lambda: False
    return quiet


def headline(session: Session) -> str:
    """Summarize the file's content in a sentence."""
    r, stepper = session.recording, session.stepper
    known = count_text(r.count, "node")
    if stepper is None:
        return f"{known}; no backward pass."
    end = f", of which {len(stepper.taken)} ran" if stepper.failure else ""
    others = f", number {session.number + 1} of {len(session.passes)}" if len(session.passes) > 1 else ""
    return f"{known}; a backward pass of {count_text(stepper.total, 'step')}{end}{others}."
