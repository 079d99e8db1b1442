"""Grade the answers in a file, judged again with the live tensors: for the cell that nbgrader runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from . import sheet
from .judge import Unreadable


@dataclass(frozen=True)
class Mark:
    """The points for one question."""

    name: str
    points: float
    of: float
    sentence: str


@dataclass(frozen=True)
class Grade:
    """The result of `wb.teach.grade`. nbgrader takes `points`, as a cell's last expression, for partial credit.

    Attributes:
        marks: for each question its name, its points, how many there are (`of`), and a sentence.
        points: the sum of the points.
        of: the largest possible sum.
    """

    marks: list[Mark]

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> float:
        return sum(mark.of for mark in self.marks)

    def require(self) -> None:
        """Raise AssertionError with a line for each question that is not right."""
        missing = [f"{mark.name}: {mark.points:g} of {mark.of:g}, {mark.sentence}" for mark in self.marks if mark.points < mark.of]
        assert not missing, "\n".join([f"{self.points:g} of {self.of:g} points", *missing])

    def __repr__(self) -> str:
        width = max((len(mark.name) for mark in self.marks), default=0)
        lines = [f"{mark.name:<{width}}  {mark.points:g} of {mark.of:g}  {mark.sentence}" for mark in self.marks]
        return "\n".join([*lines, f"{'in all':<{width}}  {self.points:g} of {self.of:g}"])


def grade(file: str | os.PathLike, *names: str) -> Grade:
    """Grade the answers in a file, with the questions of this notebook.

    Results stored in the file are not trusted: every answer is compared with the current tensors. An answer given after the right one was
    revealed, or edited in the file, scores nothing.

    Args:
        file: a file that `wb.teach.quiz.save` wrote.
        *names: ids of questions: grade only these, and raise AssertionError if one is not right. By default, all.

    Returns:
        The points by question.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: it is not a file of answers.
        KeyError: this notebook does not ask a question with that id.
        AssertionError: a question in `names` is not right.

    Example::

        >>> question = wb.teach.quiz("1 + 1?", 2, id="sum")
        >>> wb.teach.quiz.save("answers.json")
        >>> told = question.answer("2")
        >>> wb.teach.grade("answers.json")
        sum  1 of 1  right
        in all  1 of 1
    """
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(
            f"There is no file {path.name} here; wb.teach.quiz.save({path.name!r}) writes it, before the questions are answered"
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
