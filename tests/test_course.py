"""The teacher's course: what `workbench course` writes, and what it reads from lessons to write it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from workbench import cli
from workbench.course.lesson import Lesson, lessons_in, listed
from workbench.course.questions import locked, points
from workbench.course.syllabus import syllabi

ROOT = Path(__file__).resolve().parents[1]


def cell(id, source, kind="code", **metadata):
    empty = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"id": id, "cell_type": kind, "metadata": metadata, "source": source.splitlines(keepends=True), **empty}


def text(id, source, **metadata):
    return cell(id, source, "markdown", **metadata)


def notebook(*cells):
    return {"cells": list(cells), "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}


TITLE = """# Lesson 1 · A slope

What is a slope?

1. name the slope of a line,
2. find it
   with two points.

It takes about 30-45 minutes: a line 10, a curve 20.
"""
SLOPE = notebook(
    text("title", TITLE),
    cell("imports", "%load_ext workbench\nimport engine\nimport workbench as wb\nwb.teach.quiz.save('lesson-1-answers.json')"),
    text("line-text", "## 1 · A line\n\nIt is straight."),
    cell("line", "%%watch\nx = engine.tensor(3.0, requires_grad=True)\ny = 2 * x"),
    cell("free", "z = y.item()\nx.grad = None\nprint(z)"),
    cell("table", "counts = {}\nfor n in range(3):\n    counts['n'] = n"),
    cell("ask", "wb.teach.quiz.gradient(x, y, id='slope', points=2)"),
    cell("ask-count", "wb.teach.quiz('How many?', lambda: counts['n'], id='count')"),
    cell("bug", "bug = wb.teach.sabotage('no_zero_grad', id='bug-1')"),
    cell("bug-question", "bug.question"),
    cell("grade", "wb.teach.grade('lesson-1-answers.json')"),
    text("exercises", "## Your turn\n\n1. **Steeper.** Take 3 in place of 2.\n2. Take `x * x`."),
)
NOTES = notebook(
    text("notes-title", "For the instructor: **half an hour**.", after="title"),
    text("notes-answers", "## Answers\n\n1. The slope is 3.\n   1. Not a new answer.\n\n**2.** It is $2x$.", after="exercises"),
    cell("notes-code", "square = x * x\nsquare.backward()", after="exercises"),
)


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """Two lessons, notes on the first and a picture, in place of the real ones."""
    folder = tmp_path / "shipped"
    (folder / "instructor").mkdir(parents=True)
    (folder / "01_slope.ipynb").write_text(json.dumps(SLOPE))
    (folder / "02_more.ipynb").write_text(json.dumps(notebook(text("title", "# Lesson 2 · More"))))
    (folder / "instructor" / "01_slope.ipynb").write_text(json.dumps(NOTES))
    (folder / "picture.svg").write_text("<svg/>")
    monkeypatch.setattr(cli, "lessons_folder", lambda: folder)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def ids(path: Path) -> list[str]:
    return [one["id"] for one in json.loads(path.read_text("utf-8"))["cells"]]


def test_course_has_lessons_the_instructors_edition_and_a_syllabus(source, tmp_path, capsys):
    folder = tmp_path / "new" / "course"
    assert cli.main(["course", str(folder)]) == 0
    assert names(folder) == [
        "README.md", "instructor/01_slope.ipynb", "instructor/02_more.ipynb", "lessons/01_slope.ipynb", "lessons/02_more.ipynb",
        "lessons/picture.svg", "syllabus-12-weeks.md", "syllabus-6-weeks.md",
    ]  # fmt: skip
    assert (folder / "lessons/01_slope.ipynb").read_bytes() == (source / "01_slope.ipynb").read_bytes()
    instructors = ids(folder / "instructor/01_slope.ipynb")
    assert instructors[:2] == ["title", "notes-title"] and instructors[-3:] == ["exercises", "notes-answers", "notes-code"]
    assert str(folder) in capsys.readouterr().out
    assert "no lesson downloads anything" in (folder / "README.md").read_text("utf-8").replace("\n   ", " ")


def test_syllabus_says_what_the_lessons_say(source):
    weeks = syllabi(lessons_in(source))
    six = weeks["syllabus-6-weeks.md"]
    assert "lesson 1 (30 to 45 minutes), lesson 2 |" in six
    assert "### Lesson 1 · A slope\n\n30 to 45 minutes, 3 graded questions, 2 exercises." in six
    assert "- name the slope of a line\n- find it with two points\n\nParts:\n\n- 1 · A line\n" in six
    assert "Week 2" not in six and "Week 2 · The chain rule" in weeks["syllabus-12-weeks.md"]


def test_some_lessons_may_be_chosen(source, tmp_path, capsys):
    assert cli.main(["course", str(tmp_path / "one"), "--lessons", "2"]) == 0
    assert [name for name in names(tmp_path / "one") if name.endswith("ipynb")] == ["instructor/02_more.ipynb", "lessons/02_more.ipynb"]
    assert cli.main(["course", str(tmp_path / "two"), "--lessons", "1,5"]) == 1
    assert capsys.readouterr().err == "workbench: there is no lesson 5; there are 1, 2\n"
    assert not (tmp_path / "two").exists()
    for wrong in ("", "1,", "one", "1-"):
        with pytest.raises(SystemExit):
            cli.main(["course", str(tmp_path / "two"), f"--lessons={wrong}"])
        assert "lessons are numbers such as 1,2,5 or 1-4" in capsys.readouterr().err
    assert cli.numbers("1-3,7") == [1, 2, 3, 7]


def test_changed_files_are_kept_and_named(source, tmp_path, capsys):
    cli.main(["course", str(tmp_path / "mine")])
    mine = tmp_path / "mine" / "syllabus-6-weeks.md"
    mine.write_text("my own plan")
    (tmp_path / "mine" / "lessons" / "01_slope.ipynb").unlink()
    capsys.readouterr()
    assert cli.main(["course", str(tmp_path / "mine")]) == 0
    assert mine.read_text() == "my own plan" and (tmp_path / "mine" / "lessons" / "01_slope.ipynb").exists()
    assert capsys.readouterr().out.count("kept your") == 1


def test_a_folder_with_other_files_is_refused(source, tmp_path, capsys):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "README.md").write_text("my thesis")
    assert cli.main(["course", str(tmp_path / "thesis")]) == 1
    assert "has other files in it; name a new or an empty folder for the course" in capsys.readouterr().err
    assert names(tmp_path / "thesis") == ["README.md"]
    assert cli.main(["course", str(tmp_path / "thesis" / "README.md")]) == 1
    assert capsys.readouterr().err.endswith("README.md is a file; name a folder for the lessons\n")
    assert cli.main(["course", str(tmp_path / "thesis" / "README.md" / "below")]) == 1
    assert "files cannot be written into" in capsys.readouterr().err


def test_a_damaged_lesson_is_named(source, tmp_path, capsys):
    (source / "02_more.ipynb").write_text('{"cells": [')
    assert cli.main(["course", str(tmp_path / "course")]) == 1
    assert "02_more.ipynb cannot be read: " in capsys.readouterr().err


def test_questions_and_their_points_are_read_from_the_code():
    assert points(SLOPE) == {"slope": 2.0, "count": 1.0, "bug-1": 1.0}
    for wrong in ("wb.teach.quiz('?', 1)", "wb.teach.quiz('?', 1, id=name)", "wb.teach.quiz('?', 1, id='a', points=most)"):
        with pytest.raises(ValueError, match="every question of a lesson has an id=|is written out, not computed"):
            points(notebook(cell("ask", wrong)))


def test_a_student_may_change_what_no_question_depends_on():
    everything = {one["id"] for one in SLOPE["cells"] if one["cell_type"] == "code"}
    assert everything - locked(SLOPE) == {"free"}
    assert locked(notebook(cell("magic", "%%bash\nls *.json"))) == {"magic"}


def test_answers_of_the_notes_are_given_to_their_exercises():
    first, second = Lesson("01_slope", SLOPE, NOTES).solutions
    assert [one["source"] for one in first] == ["1. The slope is 3.\n   1. Not a new answer."]
    assert [one["source"] for one in second] == ["**2.** It is $2x$.", "square = x * x\nsquare.backward()"]
    assert Lesson("01_slope", SLOPE, None).solutions == [[], []]


def test_times_and_parts_are_read_from_a_table():
    table = "You need lesson 1. It is short.\n\n| part | minutes |\n|---|---|\n| 1 · A line | 6 |\n| 2 · A curve | {} |\n"
    lesson = Lesson("02_more", notebook(text("title", f"# Lesson 2 · More\n\n1. a,\n2. b.\n\n{table.format(14)}\n1. no goal\n")), None)
    assert (lesson.minutes, lesson.goals, lesson.before) == ((20, 20), ["a,", "b."], "lesson 1")
    assert lesson.parts == ["1 · A line (6 minutes)", "2 · A curve (14 minutes)"]
    each = Lesson("02_more", notebook(text("title", "About 50 minutes:\n\n" + table.format("8 each"))), None)
    assert each.minutes == (50, 50) and each.parts[1] == "2 · A curve (8 minutes each)"


def test_items_of_lists():
    assert listed("1. one\n   more\n\nNo item.\n- two\n2) three") == [(1, "one more"), (0, "two"), (2, "three")]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_folder_that_cannot_be_written_is_named(source, tmp_path, capsys, monkeypatch):
    def refuse(self, content):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert cli.main(["course", str(tmp_path / "course")]) == 1
    assert "Permission denied" in capsys.readouterr().err


def test_the_real_course_can_be_written(tmp_path):
    assert cli.main(["course", str(tmp_path / "course")]) == 0
    shipped = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    for folder in ("lessons", "instructor"):
        assert sorted(path.name for path in (tmp_path / "course" / folder).glob("*.ipynb")) == shipped
    for weeks in (6, 12):
        plan = (tmp_path / "course" / f"syllabus-{weeks}-weeks.md").read_text("utf-8")
        for lesson in lessons_in(ROOT / "notebooks"):
            assert plan.count(f"### Lesson {lesson.number} · {lesson.title}\n") == 1
