"""A lesson as an assignment for nbgrader: locked questions, a cell that grades them, exercises that are graded by hand."""

from __future__ import annotations

import copy
import re
from typing import Any

from .editions import Notebook
from .lesson import Lesson, is_text, source
from .questions import locked, points

EXERCISE_POINTS = 2  # of each exercise, given by hand
_GRADE = re.compile(r"wb\.teach\.grade\((['\"][^'\"]+['\"])\)")


def assignment(lesson: Lesson) -> Notebook:
    """The source version of an assignment. nbgrader makes the students' version of it, without solutions.

    Raises ValueError for a lesson that asks questions and does not grade them.
    """
    made = copy.deepcopy(lesson.notebook)
    worth = points(lesson.notebook)
    kept = locked(lesson.notebook)
    grades = [cell["id"] for cell in made["cells"] if cell["cell_type"] == "code" and _GRADE.search(source(cell))]
    if worth and len(grades) != 1:
        raise ValueError(f"{lesson.name}: expected one cell with wb.teach.grade(file), got {len(grades)}")
    cells: list[Notebook] = []
    for cell in made["cells"]:
        if cell["id"] in grades and worth:
            cells.append(_graded(cell, sum(worth.values())))
        elif cell["id"] in kept:
            cells.append(_marked(cell, locked=True))
        elif cell["id"] == "exercises" and lesson.exercises:
            cells += [_marked(cell, locked=True), *_exercises(lesson)]
        else:
            cells.append(cell)
    made["cells"] = cells
    return made


def _marked(cell: Notebook, **marks: Any) -> Notebook:
    """A cell with nbgrader's metadata."""
    default = {"schema_version": 3, "grade_id": cell["id"], "grade": False, "solution": False, "locked": False, "task": False}
    return {**cell, "metadata": {**cell["metadata"], "nbgrader": {**default, "cell_type": cell["cell_type"], **marks}}}


def _graded(cell: Notebook, worth: float) -> Notebook:
    """The cell that grades the questions: nbgrader takes the number on its last line for partial credit."""
    found = _GRADE.search(source(cell))
    assert found is not None
    text = f"grade = wb.teach.grade({found[1]})\nprint(grade)\ngrade.points"
    return _marked({**cell, "source": text}, grade=True, locked=True, points=worth)


def _exercises(lesson: Lesson) -> list[Notebook]:
    """For each exercise, cells for code and a cell for text that is graded by hand; the instructor's answers are their solutions."""
    cells: list[Notebook] = []
    for number, solution in enumerate(lesson.solutions, 1):
        id = f"exercise-{number}"
        code = [source(cell) for cell in solution if not is_text(cell)]
        texts = [re.sub(r"(?m)^> ?", "", source(cell)).strip() for cell in solution if is_text(cell)]
        for at, one in enumerate(code or ["# The solution needs no code."], 1):
            cells.append(_marked(_cell(f"{id}-code{'' if at == 1 else f'-{at}'}", _in_marks(one, number)), solution=True))
        text = "\n\n".join(texts) or "See the code above."
        marked = f"**Exercise {number}**\n\n<!-- BEGIN SOLUTION -->\n{text}\n<!-- END SOLUTION -->"
        cells.append(_marked(_cell(id, marked, "markdown"), grade=True, solution=True, points=EXERCISE_POINTS))
    return cells


def _in_marks(code: str, exercise: int) -> str:
    """Code between nbgrader's marks for a solution. A cell magic stays above them: it only works in the first line."""
    first, _, rest = code.partition("\n")
    head, body = (first, rest) if first.startswith("%%") else (f"# Exercise {exercise}", code)
    return f"{head}\n### BEGIN SOLUTION\n{body}\n### END SOLUTION"


def _cell(id: str, text: str, kind: str = "code") -> Notebook:
    empty = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": id, "metadata": {}, "source": text, **empty}
