"""How a class stands: who has answered which question and how, read from the files of answers in a folder."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

from ..base.readable import readable
from . import judge, sheet

Standing = Literal["right", "wrong", "revealed", "edited", "answered", "open"]
SIGNS: dict[Standing, str] = {"right": "✓", "wrong": "✗", "revealed": "?", "edited": "!", "answered": "•", "open": "·"}
MEANING = "✓ right  ✗ wrong  ? shown the answer  ! edited in the file  · not yet"
_DEPTHS = ("*", "*/*", "*/*/*")  # of a student's file below the folder; the first level is the student
HEADS = ("question", "right", "share", "wrong", "not yet", "most common wrong answer")
_TINT = {"right": "#1a7f37", "wrong": "#b42318", "revealed": "#8a6100", "edited": "#b42318"}


@dataclass(frozen=True)
class Student:
    """One student's answers to a lesson."""

    name: str
    given: dict[str, sheet.Given]
    asked: dict[str, str]
    seen: float  # when the file was written, in seconds since the epoch
    trouble: str = ""  # why the file cannot be read; the answers are then those read before

    def standing(self, question: str) -> Standing:
        """How the student stands with a question."""
        given = self.given.get(question)
        if given is None or not given.attempts:
            return "open"
        if given.edited:
            return "edited"
        if given.revealed:
            return "revealed"
        return "answered" if given.right is None else "right" if given.right else "wrong"


@dataclass(frozen=True)
class Tally:
    """How the class stands with one question."""

    question: str
    prompt: str
    counts: Counter[Standing]
    common: str  # the most common wrong answer; "" if there is none
    times: int  # how many students gave it

    @property
    def right(self) -> int:
        return self.counts["right"]

    @property
    def wrong(self) -> int:
        """How many have not found the answer by themselves."""
        return sum(self.counts[kind] for kind in ("wrong", "revealed", "edited"))

    @property
    def share(self) -> float | None:
        """The share of right answers among those that have been judged; None before the first."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def shown(self) -> str:
        return "" if self.share is None else f"{self.share:.0%}"


@dataclass(frozen=True)
class Roster:
    """The result of `wb.teach.roster`: a class at one moment. It prints as a table; in a notebook it is displayed as one.

    Attributes:
        file: the name of the files that were read.
        students: for each student the name, the answers and when they were written.
        tallies: for each question how many answers are right and wrong, and the most common wrong one.
        others: names of other files of answers in the folder.
        at: when it was read, in seconds since the epoch.
    """

    file: str
    students: list[Student]
    tallies: list[Tally]
    others: list[str]
    at: float

    def lines(self, width: int = 100, height: int | None = None) -> list[str]:
        """The table as lines of text. Students are cut off where it has more lines than `height`."""
        when = time.strftime("%H:%M:%S", time.localtime(self.at))
        plural = "" if len(self.students) == 1 else "s"
        told = [f"{self.file} · {len(self.students)} student{plural} · {when}", ""]
        told += [*self._questions(width), ""]
        students = self._by_student(width)
        left = None if height is None else max(height - len(told) - 3, 1)
        if left is not None and len(students) > left:
            students = [*students[: left - 1], f"… {len(students) - left + 1} more lines; make the window taller"]
        others = [f"Also in this folder: {', '.join(self.others)}"] if self.others else []
        return [*told, *students, "", *(_cut(line, width) for line in (MEANING, *others))]

    def _questions(self, width: int) -> list[str]:
        wide = min(max([len("question"), *(len(one.question) for one in self.tallies)]), 24)
        line = f"{{:>3}} {{:<{wide}}} {{:>5}} {{:>6}} {{:>6}} {{:>8}}  {{}}"
        told = [line.format("", *HEADS)]
        for number, one in enumerate(self.tallies, 1):
            common = f"{one.common} ({one.times}×)" if one.common else ""
            counts = one.right or "", one.shown, one.wrong or "", one.counts["open"] or ""
            told.append(line.format(number, _cut(one.question, wide), *counts, common).rstrip())
        return [_cut(line, width) for line in told]

    def _by_student(self, width: int) -> list[str]:
        """Students in as many columns as fit, in order down the columns."""
        wide = min(max([len("student"), *(len(one.name) for one in self.students)]), 20)
        numbers = " ".join(f"{number % 100:>2}" for number in range(1, len(self.tallies) + 1))
        cells = []
        for one in self.students:
            signs = " ".join(f"{SIGNS[one.standing(tally.question)]:>2}" for tally in self.tallies)
            cells.append(f"{_cut(one.name, wide):<{wide}} {signs} {'unreadable' if one.trouble else ago(self.at - one.seen):>10}")
        head = f"{'student':<{wide}} {numbers} {'':>10}"
        columns = max(1, min((width + 4) // (len(head) + 4), -(-len(cells) // 10)))
        tall = -(-len(cells) // columns) or 1
        rows = ["    ".join(cells[at::tall]).rstrip() for at in range(tall)] if cells else []
        return ["    ".join([head] * columns).rstrip(), *rows]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        rows = []
        for number, one in enumerate(self.tallies, 1):
            common = f"<code>{escape(one.common)}</code> ({one.times}×)" if one.common else ""
            asked = f'<span title="{escape(one.prompt)}">{number} · {escape(one.question)}</span>'
            rows.append([asked, f"{one.right}", one.shown, f"{one.wrong}", f"{one.counts['open']}", common])
        people = []
        for person in self.students:
            signs = [_sign(person.standing(tally.question), tally.question) for tally in self.tallies]
            last = f'<span title="{escape(person.trouble)}">unreadable</span>' if person.trouble else ago(self.at - person.seen)
            people.append([escape(person.name), *signs, last])
        numbers = [f"{number}" for number in range(1, len(self.tallies) + 1)]
        tables = _table(HEADS, rows) + _table(["student", *numbers, "last answer"], people)
        return f"<p><b>{escape(self.file)}</b></p>{tables}<p>{escape(MEANING)}</p>"


class Class:
    """The students' files below a folder. Each is read again only when it has changed."""

    def __init__(self, folder: str | os.PathLike, lesson: int | str | None = None) -> None:
        self.folder, self.lesson = Path(folder), lesson
        self._known: dict[Path, tuple[tuple[int, int, int], Student]] = {}

    def look(self) -> Roster:
        """The class now. Raises FileNotFoundError without the folder, and ValueError if it has no file of answers."""
        if not self.folder.is_dir():
            raise FileNotFoundError(f"There is no folder {self.folder}")
        newest: dict[str, dict[str, tuple[float, Path]]] = {}  # by the file's name, by student
        for path in self._files():
            try:
                written = path.stat().st_mtime
            except OSError:  # it was replaced at this moment
                continue
            student = path.relative_to(self.folder).parts[0]
            mine = newest.setdefault(path.name, {})
            mine[student] = max(mine.get(student, (0.0, path)), (written, path))
        if not newest:
            raise ValueError(f"There is no file of answers such as {self.folder / 'NAME' / 'lesson-2-answers.json'}")
        name = self._chosen(newest)
        found = [self._read(student, path) for student, (_, path) in sorted(newest[name].items(), key=lambda item: item[0].casefold())]
        return Roster(name, found, tallied(found), sorted(newest.keys() - {name}), time.time())

    def _files(self) -> Iterator[Path]:
        for depth in _DEPTHS:
            yield from (path for path in self.folder.glob(f"{depth}/*answers.json") if not path.name.startswith("."))

    def _chosen(self, newest: dict[str, dict[str, tuple[float, Path]]]) -> str:
        """The file of the chosen lesson, or the one written last."""
        if self.lesson is None:
            return max(newest, key=lambda name: max(newest[name].values()))
        wanted = f"lesson-{self.lesson}-answers.json" if str(self.lesson).isdecimal() else str(self.lesson)
        if wanted not in newest:
            raise ValueError(f"There is no {wanted} in {self.folder}; there are {', '.join(sorted(newest))}")
        return wanted

    def _read(self, name: str, path: Path) -> Student:
        before = self._known.get(path)
        try:
            about = path.stat()
            stamp = about.st_mtime_ns, about.st_ino, about.st_size
            if before is not None and before[0] == stamp:
                return before[1]
            given, asked = sheet.contents(path)
            student = Student(readable(name), given, asked, about.st_mtime)
            self._known[path] = stamp, student
            return student
        except (OSError, ValueError) as error:  # half written, or edited: what was read before still holds
            kept = before[1] if before is not None else Student(readable(name), {}, {}, self._seen(path))
            return Student(kept.name, kept.given, kept.asked, kept.seen, readable(str(error)))

    @staticmethod
    def _seen(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return time.time()


def roster(folder: str | os.PathLike, lesson: int | str | None = None) -> Roster:
    """Read how a class stands, from files such as `folder/ada/lesson-2-answers.json`. `workbench class FOLDER` shows the same, live.

    Args:
        folder: the folder that has a folder for each student.
        lesson: the lesson's number, or the name of the file; by default, the one written last.

    Returns:
        A table that prints itself.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it has no file of answers to that lesson.

    Example::

        >>> from pathlib import Path
        >>> Path("class/ada").mkdir(parents=True)
        >>> wb.teach.quiz.save("class/ada/lesson-2-answers.json")
        >>> wb.teach.roster("class").file
        'lesson-2-answers.json'
    """
    return Class(folder, lesson).look()


def tallied(students: Sequence[Student]) -> list[Tally]:
    """The tally of each question that any student was asked, in the order of the student with the most questions."""
    prompts: dict[str, str] = {}
    for one in sorted(students, key=lambda one: -len(one.asked)):
        prompts |= {name: prompts.get(name, text) for name, text in one.asked.items()}
        prompts |= {name: prompts.get(name, "") for name, given in one.given.items() if given.attempts}
    return [_tally(name, prompt, students) for name, prompt in prompts.items()]


def _tally(name: str, prompt: str, students: Sequence[Student]) -> Tally:
    counts = Counter(one.standing(name) for one in students)
    wrong: dict[str, list[str]] = {}
    for one in students:
        given = one.given.get(name)
        if given is not None and given.right is False and not given.edited:
            wrong.setdefault(_same(given.answer), []).append(given.answer)
    most = max(wrong.values(), key=len, default=[])
    return Tally(readable(name), readable(prompt), counts, readable(" ".join(most[0].split()), 40) if most else "", len(most))


def _same(answer: str) -> str:
    """A key that is equal for the same answer in other words: 1, 1.0 and 2/2; upper and lower case."""
    try:
        return repr(judge.numbers(answer).tolist())
    except judge.Unreadable:
        return " ".join(answer.casefold().split())


def in_color(line: str) -> str:
    """A line of the table for a terminal with colors."""
    codes = {SIGNS["right"]: 32, SIGNS["wrong"]: 31, SIGNS["revealed"]: 33, SIGNS["edited"]: 31, SIGNS["open"]: 2}
    return re.sub("(?:^|(?<= ))[✓✗?!·](?= |$)", lambda found: f"\x1b[{codes[found[0]]}m{found[0]}\x1b[0m", line)


def _sign(kind: Standing, question: str) -> str:
    return f'<span style="color:{_TINT.get(kind, "inherit")}" title="{escape(question)}: {kind}">{SIGNS[kind]}</span>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of HTML, its first column and its last at the left."""
    top = "".join(f"<th>{one}</th>" for one in heads)
    sides = ["left", *["center"] * (len(heads) - 2), "left"]
    cells = ["".join(f'<td style="text-align:{side}">{one}</td>' for side, one in zip(sides, row, strict=True)) for row in rows]
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(f'<tr>{one}</tr>' for one in cells)}</tbody></table>"


def ago(seconds: float) -> str:
    """How long ago, in words: "just now", "5 min ago", "2 h ago"."""
    if seconds < 60:
        return "just now"
    return (
        f"{seconds / 60:.0f} min ago"
        if seconds < 3600
        else f"{seconds / 3600:.0f} h ago"
        if seconds < 86400
        else f"{seconds / 86400:.0f} d ago"
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
