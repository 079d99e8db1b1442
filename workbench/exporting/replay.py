"""A session as one HTML file: the same view, played from what the kernel would have answered. It needs neither kernel nor network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from datetime import date
from typing import TYPE_CHECKING, Any

from .. import protocol
from ..inspector import bytes_text, count_text
from ..stepper import Stepper
from . import page
from .conversation import Conversation, drawings, passage
from .pack import Pack
from .privacy import without_path

if TYPE_CHECKING:
    from ..session import Session

BUDGET = 8_000_000  # bytes of data
SECONDS = 30.0  # that asking may take
FORMAT, VERSION = "gradient-workbench replay", 1


def replay(session: Session, paths: bool = False, budget: int = BUDGET, seconds: float = SECONDS) -> tuple[str, str]:
    """The HTML, and what was left out of it, in a sentence; "" when nothing was.

    RuntimeError while the recorded code still runs, or a cell waits inside its backward pass.
    """
    if session.recording.live:
        raise RuntimeError("The recorded code still runs. Export it in the next cell, or after the `with` block.")
    with session.lock, still(session) as quiet:
        stepper = quiet.stepper
        if stepper is not None and stepper.mode == "paused":
            raise RuntimeError("A cell waits inside this backward pass. Let it end, then export.")
        pack = Pack(paths)
        conversation = Conversation(quiet, pack, budget, seconds)
        index = _asked(conversation, stepper)
        left = conversation.sentence()
        facts = [headline(session), *([left] if left else [])]
        title = quiet.recording.title or quiet.recording.names.get(quiet.recording.root, "") or "Gradient Workbench"
        if not paths:
            title, facts = without_path(title), list(map(without_path, facts))
        index |= {"format": FORMAT, "version": VERSION, "protocol": protocol.VERSION, "title": title, "facts": facts}
        index |= {"recording": quiet.recording.name, "saved": date.today().isoformat(), "left": left}
        index |= {"budget": bytes_text(budget), "answers": conversation.answers}
        stills = quiet.stills()
        if not paths:
            stills = {kind: without_path(text) for kind, text in stills.items()}
        return page.html(title, facts, pack.closed(index), stills), left


def _asked(conversation: Conversation, stepper: Stepper | None) -> dict[str, Any]:
    """Ask for everything, what matters most first."""
    here = 0 if stepper is None else stepper.index
    try:
        if stepper is not None and not stepper.is_record:
            stepper.prepare()  # an error ends the pass where it ends; it is told there
        shown = None if stepper is None else passage(stepper, conversation) | {"start": here}
        if stepper is not None:
            stepper.to(here)
        opening = conversation.opening()
        drawings(conversation)
        conversation.whole()
        conversation.gradients(stepper)
        conversation.passing(stepper)
        conversation.deeper(stepper)
    finally:
        if stepper is not None:
            stepper.to(here)
    return {"opening": opening, "pass": shown}


@contextmanager
def still(session: Session) -> Iterator[Session]:
    """The same session for this thread alone: nobody sees its pass move, and no cell counts as running, for it is the cell that asks."""
    quiet = copy(session)
    quiet.clients, quiet.flags = [], dict(session.flags)
    quiet.passes = [session.stepper] if session.stepper is not None else []
    quiet.training = None  # a loop cannot be played from a file
    quiet.busy = lambda: False
    stop = None if session.stepper is None else session.stepper.stop
    try:
        yield quiet
    finally:
        if session.stepper is not None:
            session.stepper.stop = stop


def headline(session: Session) -> str:
    """What the file holds, in a sentence."""
    r, stepper = session.recording, session.stepper
    known = count_text(r.count, "node")
    if stepper is None:
        return f"{known}; no backward pass."
    end = f", of which {len(stepper.taken)} ran" if stepper.failure else ""
    others = f", the one of {len(session.passes)} that is shown" if len(session.passes) > 1 else ""
    return f"{known}; a backward pass of {count_text(stepper.total, 'step')}{end}{others}."
