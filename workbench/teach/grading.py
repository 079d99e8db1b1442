"""Points for answers in a file, computed anew from the live tensors: the cell that nbgrader runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from . import sheet
from .judge import Unreadable


@dataclass(frozen=True)
class Mark:
    """What one question brought."""

    name: str
    points: float
    of: float
    sentence: str


@dataclass(frozen=True)
class Grade:
    """Points by question. `points` as a cell's last expression is what nbgrader takes for partial credit."""

    marks: list[Mark]

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> float:
        return sum(mark.of for mark in self.marks)

    def require(self) -> None:
        """AssertionError, with a line for each question that is not right."""
        missing = [f"{mark.name}: {mark.points:g} of {mark.of:g}, {mark.sentence}" for mark in self.marks if mark.points < mark.of]
        assert not missing, "\n".join([f"{self.points:g} of {self.of:g} points", *missing])

    def __repr__(self) -> str:
        width = max((len(mark.name) for mark in self.marks), default=0)
        lines = [f"{mark.name:<{width}}  {mark.points:g} of {mark.of:g}  {mark.sentence}" for mark in self.marks]
        return "\n".join([*lines, f"{'in all':<{width}}  {self.points:g} of {self.of:g}"])


def grade(file: str | os.PathLike, *names: str) -> Grade:
    """Grade the answers in a file; with ids, these alone, and an AssertionError where one is not right.

    What the file says of itself is not believed: every answer is compared with the tensors as they are now. One that came after the right
    one was shown, or that was edited in the file, brings nothing. FileNotFoundError without a file; ValueError for
    one that is none, KeyError for an id that this notebook does not ask.
    """
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(
            f"There is no file {path.name} here; wb.quiz.save({path.name!r}) writes it, before the questions are answered"
        )
    answers = sheet.read(path)
    known = sheet.current.questions
    strange = [name for name in names if name not in known]
    if strange:
        raise KeyError(f"No question in this notebook has the id {strange[0]!r}; there are {', '.join(sorted(known)) or 'none'}")
    marks = []
    for name, question in known.items():
        if names and name not in names:
            continue
        given = answers.get(name, sheet.Given())
        right, sentence = False, "not answered"
        if given.edited:
            sentence = "the answer was edited in the file"
        elif given.revealed:
            sentence = "the answer was revealed before it was found"
        elif given.attempts:
            try:
                right, told = question.judge(given.answer)
                sentence = "right" if right else f"{given.answer[:60]!r} is not right. {told.removeprefix('Not right.')}".strip()
            except Unreadable as error:
                sentence = str(error)
        marks.append(Mark(name, question.points if right else 0.0, question.points, sentence))
    found = Grade(marks)
    if names:
        found.require()
    return found
