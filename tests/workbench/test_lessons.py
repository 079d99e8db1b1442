"""Lessons, and a class that follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from teaching import HOSTILE, ask, program

import engine
import workbench as wb
from workbench import protocol
from workbench.protocol import VERSION
from workbench.teach.bugs import BUGS

pytestmark = pytest.mark.usefixtures("fresh_sheet")

# -- lessons ------------------------------------------------------------------------------------------------------------------


def lesson(**options):
    x, w, z, loss = program()
    pages = [
        wb.teach.say("Hello", step="start"),
        wb.teach.say("Here", at="sum", depth="numbers", overlay="bytes"),
        wb.teach.quiz("What is `z`?", lambda: z, id="z", **options),
    ]
    return wb.teach.lesson(loss, pages, "By hand"), loss


def test_a_lesson_walks_the_pass():
    session, _ = lesson()
    assert session.stepper is not None and session.stepper.index == 0
    assert "page 1 of 3" in repr(session)
    session.next()
    row = session.lesson.rows[1]
    assert session.stepper.plan[session.stepper.index - 1] == row
    page = session.lesson.message().pages[1]
    assert (page.node, page.depth, page.overlay, page.rule) == (row, "numbers", "bytes", True)
    session.previous()
    assert session.stepper.index == 0
    assert "What is z?" in session.turn(99)


def test_while_a_cell_runs_a_page_says_that_the_pass_stays():
    session, _ = lesson()
    session.busy = lambda: True
    told = ask(session, "turn_page", to=1, follow=True)
    assert session.stepper is not None and session.stepper.index == 0
    assert told[-1]["at"] == 1 and "the pass stays" in told[-1]["trouble"]
    session.busy = lambda: False
    told = ask(session, "turn_page", to=1, follow=True)
    assert session.stepper.index > 0 and told[-1]["trouble"] == ""


def test_a_view_turns_pages_and_answers_and_never_hears_the_answer_before():
    session, _ = lesson()
    heard: list[dict] = []
    other = session.connect(lambda message, buffers: heard.append(message))
    ask(session, "ready")
    told = ask(session, "turn_page", to=2, follow=True)
    assert told[-1]["type"] == "lesson" and told[-1]["at"] == 2 and told[-1]["re"] == 7
    assert [one["at"] for one in heard if one["type"] == "lesson"] == [2]
    assert "2.5" not in json.dumps(told)
    wrong = ask(session, "answer_question", name="z", do="answer", text="2")[0]["pages"][2]["question"]
    assert (wrong["state"], wrong["expected"], wrong["attempts"]) == ("wrong", "", 1)
    shown = ask(session, "answer_question", name="z", do="reveal")[0]["pages"][2]["question"]
    assert (shown["state"], shown["expected"]) == ("revealed", "2.5")
    refused = ask(session, "answer_question", name="nope", do="answer", text="2")[0]
    assert refused["type"] == "problem" and "does not ask" in refused["sentence"]
    other.close()


def test_reveal_before_a_prediction_is_refused_with_a_sentence():
    session, _ = lesson()
    assert "Answer first" in ask(session, "answer_question", name="z", do="reveal")[0]["sentence"]
    session.busy = lambda: True
    assert "A cell is running" in ask(session, "answer_question", name="z", do="answer", text="1")[0]["sentence"]


def test_what_the_notebook_kept_comes_back_once():
    session, _ = lesson()
    back = ask(session, "answer_question", name="z", do="keep", text="2.5", attempts=3, revealed=False)[0]["pages"][2]["question"]
    assert (back["state"], back["answer"], back["attempts"]) == ("right", "2.5", 3)
    again = ask(session, "answer_question", name="z", do="keep", text="1", attempts=1)[0]["pages"][2]["question"]
    assert again["answer"] == "2.5"
    hostile = ask(session, "answer_question", name="z", do="keep", text=HOSTILE, attempts=-4)[0]
    assert hostile["pages"][2]["question"]["answer"] == "2.5"


def test_places_that_there_are_not_are_refused():
    _, _, _, loss = program()
    with pytest.raises(ValueError, match="Nothing in this graph is called 'conv'"):
        wb.teach.lesson(loss, [wb.teach.say("x", at="conv")])
    with pytest.raises(ValueError, match="at least one step"):
        wb.teach.lesson(loss, [])
    with pytest.raises(TypeError, match=r"wb\.teach\.say"):
        wb.teach.lesson(loss, ["text"])
    with pytest.raises(TypeError, match="about a loss"):
        wb.teach.lesson(3, [wb.teach.say("x")])
    for wrong in ({"depth": "deep"}, {"overlay": "heat"}, {"step": "later"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            wb.teach.say("x", **wrong)


def test_a_lesson_in_a_file(tmp_path):
    _, _, _, loss = program()
    wb.teach.quiz("What now?", 1.0, id="q1")
    file = tmp_path / "lesson.md"
    file.write_text(
        "# One\n<!-- step: start -->\n\n---\n<!-- at: mul 2, depth: shapes -->\nTwo\n```\n<!-- not a note -->\n---\nnor a page\n```\n---\n<!-- quiz: q1 -->\n"
    )
    session = wb.teach.lesson(loss, str(file))
    first, second, third = session.lesson.message().pages
    assert (first.text[0][0], second.depth, third.question.name) == ("h", "shapes", "q1")
    assert session.recording.ops[second.node].name == "mul" and second.text[-1] == ["pre", "<!-- not a note -->\n---\nnor a page"]
    for text, said in (("<!-- color: red -->", "Page 1"), ("x\n---\n<!-- quiz: q9 -->", "Page 2.*q9")):
        file.write_text(text)
        with pytest.raises(ValueError, match=said):
            wb.teach.lesson(loss, str(file))


def test_a_lesson_about_a_recording_and_requests_without_one():
    with wb.record() as r:
        y = engine.arange(3.0).sum()
    session = wb.teach.lesson(r, [wb.teach.say("No gradient here", at="sum")])
    assert session.stepper is None and session.lesson.rows[0] >= 0 and y is not None
    plain_session = wb.show(program()[3])
    assert "There is no lesson" in ask(plain_session, "turn_page", to=1)[0]["sentence"]


def test_the_page_of_the_documentation_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "teaching.md").read_text(encoding="utf-8")
    names: dict = {}
    exec(page.split("```python")[1].split("```")[0], names)
    assert "page 1 of 3" in repr(names["lesson"])
    assert wb.teach.grade("answers.json", "w-bar").points == 1
    assert f"one of {len(BUGS)} bugs" in page


def test_messages_of_lessons_are_read_with_care():
    with pytest.raises(protocol.BadMessage):
        protocol.read({"type": "answer_question", "v": VERSION, "id": 1, "name": "a", "do": "eval"})
    with pytest.raises(protocol.BadMessage):
        protocol.read({"type": "turn_page", "v": VERSION, "id": 1, "to": "2"})


# -- a class that follows -----------------------------------------------------------------------------------------------------


def test_a_class_follows_through_a_file(tmp_path, monkeypatch):
    from workbench.teach import lessons as module

    monkeypatch.setattr(module, "SECONDS", 0.02)
    file = tmp_path / "class.json"
    teacher, _ = lesson(tolerance=0.1)
    student, _ = lesson(tolerance=0.2)
    heard: list[dict] = []
    client = student.connect(lambda message, buffers: heard.append(message))
    student.lesson.follow(file)
    wait_for(lambda: "not there yet" in student.lesson.trouble)
    wb.teach.present(teacher, file)
    teacher.next()
    wait_for(lambda: student.lesson.at == 1)
    with student.lock:  # the page changes before the views are notified, both under this lock
        assert student.stepper.index == teacher.stepper.index > 0
    assert heard[-1]["type"] == "lesson" and heard[-1]["role"] == "follows"
    ask(teacher, "step", do="next", to=-1, by="op")
    wait_for(lambda: student.stepper.index == teacher.stepper.index)

    # a view that goes its own way is left alone, and comes back when it wants to
    student.handle({"type": "turn_page", "v": VERSION, "id": 1, "to": -1, "follow": False}, client)
    teacher.next()
    assert student.lesson.at == 1
    student.handle({"type": "turn_page", "v": VERSION, "id": 2, "to": -1, "follow": True}, client)
    teacher.previous()
    teacher.next()
    wait_for(lambda: student.lesson.at == 2)
    file.write_text("{")
    wait_for(lambda: "Following does not work" in student.lesson.trouble)
    student.lesson.role = ""
    assert str(tmp_path) not in student.lesson.trouble
    client.close()


def wait_for(true, seconds=60.0):
    import time

    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def test_following_takes_a_view_of_a_pass(tmp_path):
    with pytest.raises(TypeError, match=r"wb\.teach\.lesson"):
        wb.teach.present(3, tmp_path / "x.json")
    session = wb.teach.lesson(program()[3], [wb.teach.say("x")])
    with pytest.raises(FileNotFoundError, match="no folder 'nowhere'"):
        wb.teach.present(session, tmp_path / "nowhere" / "x.json")
