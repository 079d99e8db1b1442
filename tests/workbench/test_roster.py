"""A teacher who follows the class: what students have answered, read from their files while they write them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import workbench as wb
from workbench import cli
from workbench.teach import sheet
from workbench.teach.roster import Class, ago, in_color

pytestmark = pytest.mark.usefixtures("fresh_sheet")


def student(folder: Path, name: str, *answers: tuple[str, str], lesson: int = 2) -> Path:
    """A student's file after these answers, as a kernel writes it."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    wb.teach.quiz.clear()
    wb.teach.quiz.save(folder / name / f"lesson-{lesson}-answers.json")
    wb.teach.quiz("What is $2^2$?", 4.0, id="square")
    wb.teach.quiz("Which way?", "up", "choice", id="way", choices=["up", "down"])
    for id, answer in answers:
        if answer == "reveal":
            wb.teach.quiz.reveal(id)
        else:
            wb.teach.quiz.answer(id, answer)
    return folder / name / f"lesson-{lesson}-answers.json"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Five students."""
    student(tmp_path, "ada", ("square", "4"), ("way", "up"))
    student(tmp_path, "Ben", ("square", "2"))
    student(tmp_path, "cleo", ("square", "3"), ("square", "2.0"), ("way", "down"), ("way", "reveal"))
    student(tmp_path, "dan", ("square", "5"), ("square", "4.0"))
    student(tmp_path, "eve")
    return tmp_path


def test_who_answered_what(folder):
    found = wb.teach.roster(folder)
    assert [one.name for one in found.students] == ["ada", "Ben", "cleo", "dan", "eve"]
    standings = [[one.standing(tally.question) for tally in found.tallies] for one in found.students]
    assert standings == [["right", "right"], ["wrong", "open"], ["wrong", "revealed"], ["right", "open"], ["open", "open"]]
    square, way = found.tallies
    assert (square.question, square.prompt, square.right, square.wrong, square.counts["open"], square.share) == (
        "square",
        "What is 2^2?",
        2,
        2,
        1,
        0.5,
    )
    assert (square.common, square.times) == ("2", 2)  # 2 and 2.0 are one answer
    assert (way.right, way.wrong, way.common, way.times) == (1, 1, "down", 1)


def test_the_verdict_is_sealed(folder):
    file = folder / "Ben" / "lesson-2-answers.json"
    data = json.loads(file.read_text())
    assert data["answers"]["square"]["right"] is False and data["questions"]["way"] == "Which way?"
    data["answers"]["square"]["right"] = True
    file.write_text(json.dumps(data))
    assert wb.teach.roster(folder).students[1].standing("square") == "edited"
    assert wb.teach.roster(folder).tallies[0].wrong == 2


def test_an_answer_from_an_earlier_session_is_judged_again(folder):
    file = folder / "ada" / "lesson-2-answers.json"
    wb.teach.quiz.clear()
    wb.teach.quiz("What is $2^2$?", 5.0, id="square")  # the lesson has been corrected
    wb.teach.quiz.save(file)
    assert json.loads(file.read_text())["answers"]["square"]["right"] is False
    given = sheet.read(file)["square"]
    assert not given.edited and given.right is False


def test_files_without_verdicts_are_read(folder):
    given = sheet.Given("4", 1, False)
    entry = {"answer": "4", "attempts": 1, "revealed": False, "seal": sheet.seal("square", given)}
    (folder / "eve" / "lesson-2-answers.json").write_text(
        json.dumps({"format": sheet.FORMAT, "version": sheet.VERSION, "answers": {"square": entry}})
    )
    found = wb.teach.roster(folder)
    assert found.students[-1].standing("square") == "answered" and found.tallies[0].share == 0.5


@pytest.mark.parametrize("text", ["", '{"format": "gradient-wor', "\x00\xff", '{"answers": 1}'])
def test_half_a_file_hides_nothing_that_was_read_before(folder, text):
    students = Class(folder)
    students.look()
    file = folder / "ada" / "lesson-2-answers.json"
    whole = file.read_text()
    file.write_text(text)
    ada = students.look().students[0]
    assert ada.trouble and ada.standing("square") == "right"
    assert "unreadable" in repr(students.look())
    assert Class(folder).look().students[0].standing("square") == "open"
    file.write_text(whole)
    assert students.look().students[0].trouble == ""


def test_changes_are_seen_and_unchanged_files_are_not_read_again(folder, monkeypatch):
    students = Class(folder)
    students.look()
    student(folder, "eve", ("square", "4"))
    read = []
    contents = sheet.contents
    monkeypatch.setattr(sheet, "contents", lambda path: read.append(path) or contents(path))
    assert students.look().students[-1].standing("square") == "right"
    assert read == [folder / "eve" / "lesson-2-answers.json"]


def test_the_lesson_written_last_is_shown_unless_another_is_chosen(folder):
    later = student(folder, "ada", ("square", "1"), lesson=3)
    os.utime(later, (time.time() + 5, time.time() + 5))
    found = wb.teach.roster(folder)
    assert (found.file, len(found.students), found.others) == ("lesson-3-answers.json", 1, ["lesson-2-answers.json"])
    assert len(wb.teach.roster(folder, 2).students) == 5
    with pytest.raises(ValueError, match=r"no lesson-7-answers\.json in .*; there are lesson-2-answers\.json, lesson-3-answers\.json"):
        wb.teach.roster(folder, 7)


def test_files_may_lie_deeper_and_the_newest_counts(folder):
    deeper = student(folder / "ada", "lesson-02", ("square", "2"))
    os.utime(deeper, (time.time() + 5, time.time() + 5))
    found = wb.teach.roster(folder)
    assert [one.name for one in found.students].count("ada") == 1 and found.students[0].standing("square") == "wrong"


def test_table_of_a_whole_class_fits(folder):
    for number in range(30):
        student(folder, f"student-{number:02d}", ("square", "4"))
    found = wb.teach.roster(folder)
    lines = found.lines(width=70, height=18)
    assert len(lines) <= 18 and max(map(len, lines)) <= 70
    assert "more lines; make the window taller" in "\n".join(lines)
    assert all(f"student-{number:02d}" in repr(found) for number in range(30))
    assert in_color("ada  ✓ ✗ ·") == "ada  \x1b[32m✓\x1b[0m \x1b[31m✗\x1b[0m \x1b[2m·\x1b[0m"


def test_names_and_answers_are_data(tmp_path):
    student(tmp_path, "<b>ada\x1b[2J", ("square", "<script>"), ("square", "[1, 2]"))
    student(tmp_path, "ben", ("way", "down"))
    found = wb.teach.roster(tmp_path)
    html = found._repr_html_()
    assert "<b>ada" not in html and "&lt;b&gt;ada" in html and "\x1b" not in html + repr(found)


def test_answers_are_copied_to_the_teacher(tmp_path, monkeypatch):
    (tmp_path / "class").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("WORKBENCH_CLASS", str(tmp_path / "class"))
    monkeypatch.setenv("JUPYTERHUB_USER", "../ada lovelace")
    student(tmp_path / "home", "work", ("square", "4"))
    (copy,) = (tmp_path / "class").rglob("*.json")
    assert copy.parent == tmp_path / "class" / "_ada_lovelace"
    assert copy.read_text() == (tmp_path / "home" / "work" / copy.name).read_text()
    assert (copy.parent.stat().st_mode & 0o007) == 0  # classmates cannot read it
    assert wb.teach.roster(tmp_path / "class").students[0].standing("square") == "right"


def test_grading_writes_nothing_into_the_class(tmp_path, monkeypatch):
    (tmp_path / "class").mkdir()
    monkeypatch.setenv("WORKBENCH_CLASS", str(tmp_path / "class"))
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    student(tmp_path, "ada", ("square", "4"))
    assert os.listdir(tmp_path / "class") == []


def test_a_lesson_goes_on_without_the_class(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CLASS", str(tmp_path / "missing"))
    with pytest.warns(UserWarning, match="Your teacher cannot see your answers: No such file or directory") as told:
        file = student(tmp_path, "ada", ("square", "4"), ("way", "up"))
    assert len(told) == 1 and sheet.read(file)["square"].right


def test_command_prints_the_table(folder, capsys):
    assert cli.main(["class", str(folder), "--lesson", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("lesson-2-answers.json · 5 students · ") and "\x1b" not in printed
    assert "  1 square       2    50%      2        1  2 (2×)\n" in printed
    assert cli.main(["class", str(folder / "nothing")]) == 1
    assert "workbench: there is no folder" in capsys.readouterr().err
    (folder / "nothing").mkdir()
    assert cli.main(["class", str(folder / "nothing")]) == 1
    assert "there is no file of answers such as" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["class", str(folder), "--every", "never"])
    assert "a time is a number of seconds, at least 0.1" in capsys.readouterr().err


def test_command_follows_until_it_is_interrupted(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 1:
            student(folder, "fay", ("square", "4"))
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(cli.time, "sleep", pause)
    assert cli.main(["class", str(folder), "--every", "0.5"]) == 0
    _, before, after = capsys.readouterr().out.split(cli.CLEAR)
    assert "5 students" in before and "6 students" in after and "fay" in after and pauses == [0.5, 0.5]


def test_time_since_the_last_answer():
    assert [ago(one) for one in (-3, 59, 61, 7300, 200_000)] == ["just now", "just now", "1 min ago", "2 h ago", "2 d ago"]
