"""What holds for every lesson, and what a test of one lesson finds out about its run.

A test of a lesson is a class `Lesson` with its name, in a file of its own. The lesson runs once, with the instructor's notes in it, in a fresh
kernel and in an empty folder. Where that takes long, cells say in their metadata how they become shorter, `"fast": {"epochs = 20": "epochs = 1"}`,
and tests of what the whole training reaches are marked `whole`; `make lessons` runs those.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from workbench.course.editions import with_fast, with_notes
from workbench.course.lesson import lessons_in
from workbench.course.questions import points
from workbench.jupyter.capturing import Captured

FOLDER = Path(__file__).parents[2] / "notebooks"
SAVED_LIMIT = 200_000  # bytes of one cell's outputs in the notebook file


def edition(name: str, fast: bool, notes: bool = True) -> dict[str, Any]:
    """A lesson, with the instructor's notes in it if `notes`, and shortened as its cells say if `fast`."""
    lesson = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    beside = FOLDER / "instructor" / f"{name}.ipynb"
    if notes:
        lesson = with_notes(lesson, json.loads(beside.read_text(encoding="utf-8")))
    return with_fast(lesson, fast)


def answered(answers: dict[str, str]) -> str:
    """The cell that answers all questions of a lesson, after its last one, and grades them."""
    lines = [f"wb.teach.quiz.answer({id!r}, {answer})" for id, answer in answers.items()]
    return "\n".join(["wb.teach.quiz.save('answered.json')", *lines, "wb.teach.grade('answered.json')"])


@dataclass
class Run:
    """A lesson after all its cells have run."""

    name: str
    cells: list[Any]
    views: dict[str, Captured]  # by the id of the widget's model

    def text(self, id: str) -> str:
        """What the cell has printed and returned, as plain text."""
        cell = next(cell for cell in self.cells if cell["id"] == id)
        parts = [o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.get("outputs", [])]
        return "".join("".join(part) for part in parts)

    def numbers(self, id: str, pattern: str) -> list[float]:
        """The numbers that the groups of a regular expression find in the text of a cell."""
        found = re.search(pattern, self.text(id))
        assert found, f"{self.name}, cell {id}: expected {pattern!r} in\n{self.text(id)}"
        return [float(number.replace(",", "")) for number in found.groups()]


@pytest.mark.slow
class Lesson:
    """The checks of every lesson; a subclass gives the name of its file and the right answers to its questions, and adds its own checks."""

    name: str
    answers: dict[str, str]  # by the id of the question, each a Python expression; given at the end, and graded

    def test_is_saved_without_outputs(self):
        for folder in (FOLDER, FOLDER / "instructor"):
            notebook = nbformat.read(folder / f"{self.name}.ipynb", as_version=4)
            nbformat.validate(notebook)
            assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count") is not None]

    def test_course_and_syllabus_find_what_they_need(self):
        lesson = next(one for one in lessons_in(FOLDER) if one.name == self.name)
        assert set(points(lesson.notebook)) == set(self.answers)
        assert lesson.title and lesson.goals and lesson.exercises
        assert lesson.minutes, "the title cell says how long the lesson takes, such as `It takes about 45 minutes`"
        assert all(lesson.solutions), "the notes after `exercises` answer each exercise, and begin each answer with its number"

    def test_no_cell_fails_or_warns(self, run):
        for cell in run.cells:
            failed = any(output["output_type"] == "error" for output in cell.get("outputs", []))
            assert failed == ("raises-exception" in cell.metadata.get("tags", [])), cell["id"]
            for output in cell.get("outputs", []):
                assert output.get("name") != "stderr", f"{run.name}, cell {cell['id']} wrote to stderr: {output['text']}"

    def test_every_view_is_drawn_in_a_browser(self, run, browser, tmp_path):
        import drawn  # tests elsewhere import this file, and find no file beside it

        assert drawn.faults(run, browser, tmp_path / "views.html") == []

    def test_a_student_who_knows_the_answers_gets_every_point(self, run):
        *_, points, of, possible = run.text("answered").split()
        assert of == "of" and points == possible == f"{len(self.answers)}", run.text("answered")

    def test_every_view_has_a_picture_and_a_text_for_pages_without_javascript(self, run):
        views = [o for c in run.cells for o in c.get("outputs", []) if "application/vnd.jupyter.widget-view+json" in o.get("data", {})]
        assert len(views) >= 3
        for view in views:
            assert "text/plain" in view["data"]
            svg = "".join(view["data"]["image/svg+xml"])
            assert svg.lstrip().startswith("<svg") and "<script" not in svg
            assert sum(len(str(value)) for value in view["data"].values()) < SAVED_LIMIT
