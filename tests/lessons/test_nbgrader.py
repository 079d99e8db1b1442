"""A lesson as an assignment goes through nbgrader: generated, answered, collected, graded, and given back with feedback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path

import nbformat
import pytest
from lesson import FOLDER
from nbclient import NotebookClient

from workbench import cli
from workbench.course.assignment import assignment
from workbench.course.lesson import Lesson, lessons_in
from workbench.course.questions import locked, points
from workbench.teach.sheet import Given, Sheet, read

NAME, ASSIGNMENT, SHEET = "02_backpropagation_by_hand", "lesson-02", "lesson-2-answers.json"

# What the formgrader does: reads the scores, and gives points for an exercise by hand.
BOOK = """
import json
from nbgrader.api import Gradebook
told = {}
with Gradebook("sqlite:///gradebook.db") as book:
    for one in book.assignment_submissions("lesson-02"):
        grades = {grade.name: grade for grade in one.notebooks[0].grades}
        waiting = [name for name, grade in grades.items() if grade.needs_manual_grade]
        if waiting:
            grades["exercise-1"].manual_score = 1.5
        told[one.student.id] = [grades["grade"].auto_score, grades["grade"].max_score, waiting]
    book.db.commit()
    told["scores"] = {one.student.id: [one.score, one.max_score] for one in book.assignment_submissions("lesson-02")}
print(json.dumps(told))
"""


def run(folder: Path, *arguments: str) -> str:
    """Run Python in the course's folder as in its activated environment; returns what was printed."""
    path = os.pathsep.join([get_path("scripts"), os.environ["PATH"]])
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def filled(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook of a student who has done the first exercise."""
    for cell in notebook.cells:
        if cell.id == "exercise-1":
            cell.source = cell.source.replace("Your answer:", "The gradient of w is 0, because x is.")
    return notebook


def handed_in(folder: Path, student: str, notebook: nbformat.NotebookNode, answers: bytes | None) -> None:
    """A student's zip file, as a learning platform gives it to the teacher."""
    archive = folder / "downloaded" / ASSIGNMENT / "archive"
    archive.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive / f"{student}.zip", "w") as file:
        file.writestr(f"{ASSIGNMENT}/{NAME}.ipynb", nbformat.writes(notebook))
        if answers is not None:
            file.writestr(f"{ASSIGNMENT}/{SHEET}", answers)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbgrader") is None, reason="needs nbgrader")
def test_the_whole_loop(tmp_path):
    course = tmp_path / "course"
    assert cli.main(["course", str(course), "--nbgrader", "--lessons", "2"]) == 0
    questions = points(json.loads((FOLDER / f"{NAME}.ipynb").read_text("utf-8")))

    # The teacher has tried the assignment: with all answers in the folder, and in a cell's metadata.
    source = course / "source" / ASSIGNMENT / f"{NAME}.ipynb"
    tried = nbformat.read(source, as_version=4)
    tried.metadata["gradient_workbench"] = {"answers": {"w-bar": {"answer": "teachers"}}, "level": "student"}
    tried.cells[-1].metadata["gradient_workbench"] = {"answers": {"w-bar": {"answer": "teachers"}}}
    nbformat.write(tried, source)
    answers = import_module("test_02_backpropagation_by_hand").TestBackpropagationByHand.answers
    assert set(answers) == set(questions)
    (course / "source" / ASSIGNMENT / SHEET).write_text("{}")
    run(course, "-m", "nbgrader", "generate_assignment", ASSIGNMENT, "--force")
    assert os.listdir(course / "release" / ASSIGNMENT) == [f"{NAME}.ipynb"]
    released = nbformat.read(course / "release" / ASSIGNMENT / f"{NAME}.ipynb", as_version=4)
    assert released.metadata["gradient_workbench"] == {"level": "student"} and "teachers" not in str(
        [cell.metadata for cell in released.cells]
    )

    # Ada answers everything in her kernel; Ben answers two questions, one of them wrongly, and edits cells that are not his; Cleo nothing.
    ada = nbformat.read(course / "release" / ASSIGNMENT / f"{NAME}.ipynb", as_version=4)
    lines = "\n".join(f"wb.teach.quiz.answer({id!r}, {answer})" for id, answer in answers.items())
    at = next(index for index, cell in enumerate(ada.cells) if cell.id == "grade")
    answering = nbformat.v4.new_code_cell(lines, id="answering")
    (tmp_path / "ada").mkdir()
    running = nbformat.v4.new_notebook(cells=[*ada.cells[:at], answering, ada.cells[at]], metadata=ada.metadata)
    NotebookClient(running, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path / "ada")}}).execute()
    handed_in(course, "ada", filled(ada), (tmp_path / "ada" / SHEET).read_bytes())

    first, second = list(questions)[:2]
    ben, sheet = nbformat.from_dict(released), Sheet()
    sheet.answers = {first: read(tmp_path / "ada" / SHEET)[first], second: Given("123456", 2, False)}
    sheet.write(tmp_path / "ben.json")
    for cell in ben.cells:
        if cell.id in ("grade", "exercises"):
            cell.source = "7.0"
    handed_in(course, "ben", ben, (tmp_path / "ben.json").read_bytes())
    handed_in(course, "cleo", released, None)

    run(course, "-m", "nbgrader", "zip_collect", ASSIGNMENT)
    (course / "source" / ASSIGNMENT / SHEET).write_bytes((tmp_path / "ada" / SHEET).read_bytes())  # the teacher has tried it again
    run(course, "-m", "nbgrader", "autograde", ASSIGNMENT)
    book = json.loads(run(course, "-c", BOOK))
    most, exercises = sum(questions.values()), 2.0 * len(lessons_in(FOLDER, [2])[0].exercises)
    assert book["ada"] == [most, most, ["exercise-1"]]
    assert book["ben"] == [questions[first], most, []]
    assert book["cleo"] == [0, most, []]
    assert book["scores"] == {"ada": [most + 1.5, most + exercises], "ben": [1.0, most + exercises], "cleo": [0, most + exercises]}

    run(course, "-m", "nbgrader", "generate_feedback", ASSIGNMENT)
    for student, (score, possible) in book["scores"].items():
        page = (course / "feedback" / student / ASSIGNMENT / f"{NAME}.html").read_text("utf-8")
        assert f"(Score: {score:.1f} / {possible:.1f})" in page
        assert f"{second}  " in page and ("123456" in page) == (student == "ben")


def lesson(*cells: dict, notes: tuple = ()) -> Lesson:
    return Lesson("07_made_up", {"cells": list(cells)}, {"cells": list(notes)})


def code(id: str, source: str, **metadata: str) -> dict:
    return {"cell_type": "code", "id": id, "metadata": metadata, "source": source, "execution_count": None, "outputs": []}


def text(id: str, source: str, **metadata: str) -> dict:
    return {"cell_type": "markdown", "id": id, "metadata": metadata, "source": source}


def test_solutions_stand_between_marks_and_a_magic_above_them():
    notes = text("n-1", "> **Answers**\n>\n> 1. It is *zero*.", after="exercises"), code("n-2", "%%watch\ny = 0", after="exercises")
    made = assignment(lesson(text("exercises", "1. Which?\n2. Why?"), notes=notes))["cells"]
    assert [cell["id"] for cell in made] == ["exercises", "exercise-1-code", "exercise-1", "exercise-2-code", "exercise-2"]
    assert made[1]["source"] == "%%watch\n### BEGIN SOLUTION\ny = 0\n### END SOLUTION"
    assert made[3]["source"].startswith("# Exercise 2\n### BEGIN SOLUTION\n")
    assert made[2]["source"] == "**Exercise 1**\n\n<!-- BEGIN SOLUTION -->\n1. It is *zero*.\n<!-- END SOLUTION -->"
    assert [cell["metadata"]["nbgrader"].get("points") for cell in made] == [None, None, 2, None, 2]


def test_questions_without_a_grade_are_refused():
    with pytest.raises(ValueError, match="07_made_up: expected one cell with wb.teach.grade"):
        assignment(lesson(code("ask", "wb.teach.quiz('?', 1, id='a')")))


@pytest.mark.parametrize("one", lessons_in(FOLDER), ids=lambda one: one.name)
def test_every_lesson_is_an_assignment(one):
    made = nbformat.from_dict(assignment(one))
    nbformat.validate(made)
    marks = {cell.id: cell.metadata.nbgrader for cell in made.cells if "nbgrader" in cell.metadata}
    assert locked(one.notebook) <= {id for id, mark in marks.items() if mark.locked}
    by_hand = [mark for mark in marks.values() if mark.grade and mark.solution]
    assert len(by_hand) == len(one.exercises)
    assert sum(mark.points for mark in marks.values() if mark.grade and mark.locked) == sum(points(one.notebook).values())
    if one.notes is not None:
        assert all(
            any("BEGIN SOLUTION" in line for line in cell.source.splitlines())
            for cell in made.cells
            if marks.get(cell.id, {}).get("solution")
        )


def test_without_nbgrader_the_source_is_written_and_it_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("workbench.course.folder.find_spec", lambda name: None)
    assert cli.main(["course", str(tmp_path / "course"), "--nbgrader", "--lessons=2"]) == 0
    assert "nbgrader is not installed, so release/ was not made" in capsys.readouterr().out
    assert (tmp_path / "course" / "source" / ASSIGNMENT / f"{NAME}.ipynb").exists()
    assert not (tmp_path / "course" / "release").exists()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbgrader") is None, reason="needs nbgrader")
def test_what_nbgrader_refuses_is_said(tmp_path, capsys):
    cli.main(["course", str(tmp_path / "course"), "--nbgrader", "--lessons=2"])
    source = tmp_path / "course" / "source" / ASSIGNMENT / f"{NAME}.ipynb"
    notebook = nbformat.read(source, as_version=4)
    notebook.cells[-1].source = "<!-- BEGIN SOLUTION -->"
    nbformat.write(notebook, source)
    (tmp_path / "course" / "release" / ASSIGNMENT).rename(tmp_path / "old")
    assert cli.main(["course", str(tmp_path / "course"), "--nbgrader", "--lessons=2"]) == 1
    assert "nbgrader cannot make the assignment lesson-02: RuntimeError: no end solution statement found" in capsys.readouterr().err
