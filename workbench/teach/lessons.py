"""A lesson: pages of text and questions, each at a place in the graph and the backward pass, and views of a class that follow."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import ref

from .. import protocol
from .markup import blocks, plain
from .questions import Question, find
from .sheet import write_whole

if TYPE_CHECKING:
    from ..session.session import Client, Session

Depth = Literal["", "symbols", "shapes", "numbers"]
OVERLAYS = ("", "gradient", "bytes", "saved", "time", "activation", "mean gradient", "ratio", "bad", "slope", "none")
FORMAT = "gradient-workbench place"
STAYS = "A cell runs, so the pass stays where it is. When the cell has ended, turn back to this page."
SECONDS = 1.0  # between two checks of a teacher's file


class Say:
    """A page of a lesson.

    Args:
        text: Markdown.
        at: the place in the graph: a tensor, a name, or an op ("mul", "mul 2" for the second one).
        step: where the backward pass goes: to that place ("there"), to the "start", to the "end", to a number of steps, or nowhere (None).
        depth: show the rule of that step in "symbols", "shapes" or "numbers".
        overlay: what the boxes show, such as "gradient", "bytes" or "time".
        rule: False hides the rule, True shows it; by default it is shown with a `depth`.

    Raises:
        ValueError: `step`, `depth` or `overlay` is unknown.

    Example::

        >>> page = wb.teach.say("Both factors get the *other* one as gradient.", at="mul", depth="symbols")
    """

    def __init__(
        self, text: str, at: Any = None, *, step: Any = "there", depth: Depth = "", overlay: str = "", rule: bool | None = None
    ) -> None:
        if depth not in get_args(Depth):
            raise ValueError(f"depth is symbols, shapes or numbers, not {depth!r}")
        if overlay not in OVERLAYS:
            raise ValueError(f"overlay is one of {', '.join(OVERLAYS[1:])}, not {overlay!r}")
        if step is not None and step not in ("there", "start", "end") and type(step) is not int:
            raise ValueError(f'step is "there", "start", "end", a number of steps, or None, not {step!r}')
        self.text, self.at, self.step, self.depth, self.overlay = blocks(text), at, step, depth, overlay
        self.rule = bool(depth) if rule is None else rule


class Lesson:
    """The pages of a session, and which one is shown. Every view follows it unless it has been set free."""

    def __init__(self, session: Session, pages: Sequence[Say | Question], title: str = "") -> None:
        self._session, self.title = ref(session), title
        self.pages = list(pages)
        self.at = 0
        self.free: set[int] = set()  # ids of views that do not follow
        self.role: Literal["", "presents", "follows"] = ""
        self.trouble = ""
        self._file: Path | None = None
        self.rows = [self._row(page) for page in self.pages]
        for page in self.pages:
            if isinstance(page, Question):
                if page.kind == "node":  # it is graded later, when all views may be closed
                    page.where = lambda: (session.recording, session.stepper)
                page.restore()

    @property
    def session(self) -> Session:
        found = self._session()
        assert found is not None
        return found

    def _row(self, page: Say | Question) -> int:
        if page.at is None:
            return -1
        r = self.session.recording
        rows = find(r, page.at)
        if not rows:
            there = list(dict.fromkeys(r.names.get(row) or r.ops[row].name for row in range(r.count) if r.ops[row] is not None))
            raise ValueError(f"Nothing in this graph is called {page.at!r}. There are {', '.join(there[:12]) or 'no ops'}.")
        return rows[0]

    # -- turning --------------------------------------------------------------------------------------------------------------

    def turn(self, to: int) -> None:
        """Show another page, and move the pass to its place. While a cell runs, the pass does not move."""
        if not self.pages:
            raise protocol.Refused("There is no lesson here, only a view to follow.")
        self.at = max(0, min(to, len(self.pages) - 1))
        stepper = self.session.stepper
        place = self.place(self.at, stepper)
        stays = stepper is not None and place is not None and self.session.busy()
        if stepper is not None and place is not None and not stays:
            stepper.to(place)
        self.moved()
        if stays or self.trouble == STAYS:
            self.trouble = STAYS if stays else ""

    def place(self, number: int, stepper: Any) -> int | None:
        """The number of steps done at a page; None if the page leaves the pass where it is."""
        step, row = self.pages[number].step, self.rows[number]
        if stepper is None or step is None:
            return None
        if step == "there":
            return stepper.plan.index(row) + 1 if row in stepper.plan else None
        return {"start": 0, "end": stepper.total}.get(step, step)

    def message(self, re: int | None = None) -> protocol.Lesson:
        """The whole lesson, as a message for a view."""
        pages = [self._page(page, row) for page, row in zip(self.pages, self.rows, strict=True)]
        return protocol.Lesson(re, self.session.recording.name, self.title, pages, self.at, self.role, self.trouble)

    @staticmethod
    def _page(page: Say | Question, row: int) -> protocol.Page:
        if isinstance(page, Question):
            return protocol.Page([], row, "", "", False, page.message())
        return protocol.Page(page.text, row, page.depth, page.overlay, page.rule, None)

    def tell(self, but: Client | None = None) -> None:
        """Send the state of the lesson to all views but one."""
        for client in self.session.clients:
            if client is not but:
                client.send(self.message().to_json(), [])

    def text(self) -> str:
        """The current page as text, for a terminal."""
        if not self.pages:
            return self.title
        page = self.pages[self.at]
        head = f"{self.title or 'Lesson'}: page {self.at + 1} of {len(self.pages)}"
        return f"{head}\n\n{page!r}" if isinstance(page, Question) else "\n\n".join([head, *map(plain, page.text)])

    # -- a class that follows ---------------------------------------------------------------------------------------------------

    def present(self, file: str | os.PathLike) -> None:
        """Write the current page and step into `file` from now on. Raises OSError if it cannot be written."""
        self.role, self._file = "presents", Path(file)
        self._write()

    def moved(self) -> None:
        """Notify the class of a new page or step. If the file can no longer be written, the view says so."""
        if self.role != "presents":
            return
        try:
            self._write()
            self.trouble = ""
        except OSError as error:
            self.trouble = f"The class is not notified: the file cannot be written ({error.strerror or error})."

    def _write(self) -> None:
        assert self._file is not None
        stepper = self.session.stepper
        place = {"format": FORMAT, "page": self.at, "step": -1 if stepper is None else stepper.index}
        write_whole(self._file, json.dumps(place))

    def follow(self, file: str | os.PathLike) -> threading.Thread:
        """Follow the teacher's file, checked once a second as long as a view is open."""
        self.role, self._file = "follows", Path(file)
        thread = threading.Thread(target=_follow, args=(ref(self), self._file), name="workbench-follow", daemon=True)
        thread.start()
        return thread

    def heard(self, place: Mapping[str, int]) -> None:
        """Move all following views to the teacher's place."""
        session = self.session
        with session.lock:
            if session.busy() or not any(id(client) not in self.free for client in session.clients):
                return
            before = self.at, session.stepper.index if session.stepper is not None else -1
            if self.pages:
                self.at = max(0, min(place["page"], len(self.pages) - 1))
            if session.stepper is not None and place["step"] >= 0:
                session.stepper.to(place["step"])
            if before != (self.at, session.stepper.index if session.stepper is not None else -1):
                self.trouble = ""
                self._tell_moved()

    def _tell_moved(self) -> None:
        session = self.session
        for client in session.clients:
            if session.stepper is not None:
                client.send(session.stepped(client, None).to_json(), [])
        self.tell()

    def troubled(self, sentence: str) -> None:
        """Show in the views why following does not work."""
        with self.session.lock:
            if sentence != self.trouble:
                self.trouble = sentence
                self.tell()


def place_in(file: Path) -> dict[str, int]:
    """Read a teacher's place from a file. Raises ValueError if it is not such a file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{file.name} is not a file that wb.teach.present() wrote") from error
    place: dict[str, Any] = (
        {key: found.get(key) for key in ("page", "step")} if isinstance(found, dict) and found.get("format") == FORMAT else {}
    )
    if not place or not all(type(n) is int for n in place.values()):
        raise ValueError(f"{file.name} is not a file that wb.teach.present() wrote")
    return place


def _follow(held: ref, file: Path) -> None:
    """Poll until the lesson is gone or follows another file. The thread does not keep it alive."""
    pause, seen = threading.Event(), None
    while not pause.wait(SECONDS):
        lesson = held()
        if lesson is None or lesson._session() is None or lesson.role != "follows" or lesson._file != file:
            return
        if not lesson.session.clients:
            continue
        try:
            found = file.stat()
            stamp = found.st_mtime_ns, found.st_ino  # the clock may be coarse, but each write makes a new file
            if stamp != seen or lesson.trouble:
                lesson.heard(place_in(file))
                seen = stamp if not lesson.session.busy() else None
                lesson.troubled("")
        except FileNotFoundError:
            lesson.troubled(f"The teacher's file {file.name} is not there yet.")
        except (OSError, ValueError) as error:
            lesson.troubled(f"Following does not work: {error}.")
        del lesson


# -- a lesson in a Markdown file ------------------------------------------------------------------------------------------------

_NOTE = re.compile(r"\s*<!--\s*(.*?)\s*-->\s*$")


def _parts(text: str) -> Iterator[list[tuple[str, bool]]]:
    """Split the lines at lines of `---`, each with whether it is in fenced code, where such a line does not split."""
    part: list[tuple[str, bool]] = []
    code = False
    for line in text.splitlines():
        code ^= line.strip().startswith("```")
        if not code and re.fullmatch(r"-{3,}\s*", line):
            yield part
            part = []
        else:
            part.append((line, code))
    yield part


def pages_in(text: str, questions: Mapping[str, Question]) -> list[Say | Question]:
    """Parse pages from Markdown: `---` ends one; `<!-- at: mul, depth: numbers, step: end -->` places it, `<!-- quiz: id -->` asks.

    Raises ValueError, with the number of the page, for an unknown word.
    """
    pages: list[Say | Question] = []
    for number, part in enumerate(_parts(text), 1):
        settings: dict[str, Any] = {}
        lines = []
        for line, code in part:
            note = None if code else _NOTE.match(line)
            if note is None:
                lines.append(line)
                continue
            for pair in note[1].split(","):
                key, colon, value = (one.strip() for one in pair.partition(":"))
                if not colon or key not in ("at", "step", "depth", "overlay", "rule", "quiz"):
                    raise ValueError(
                        f"Page {number}: {pair.strip()!r} is none of at, step, depth, overlay, rule, quiz, such as <!-- at: mul -->"
                    )
                settings[key] = value
        asked = settings.pop("quiz", None)
        if "step" in settings:
            step = settings["step"]
            settings["step"] = None if step == "none" else int(step) if step.isdigit() else step
        if "rule" in settings:
            settings["rule"] = settings["rule"] in ("yes", "true", "on")
        words = "\n".join(lines).strip()
        if words or settings:
            pages.append(Say(words, **settings))
        if asked is not None:
            if asked not in questions:
                raise ValueError(
                    f"Page {number}: no question has the id {asked!r}; ask it with wb.teach.quiz(..., id={asked!r}) before the lesson"
                )
            pages.append(questions[asked])
    return pages
