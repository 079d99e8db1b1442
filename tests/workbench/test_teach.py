"""Lessons, questions and their grading, seeded bugs, forward against reverse mode."""

from __future__ import annotations

import ast
import inspect
import json
import math
from pathlib import Path

import numpy
import pytest

import engine
import engine.nn.functional as F
import workbench as wb
from engine import nn, optim
from workbench import protocol
from workbench.protocol import VERSION
from workbench.teach import judge, sheet
from workbench.teach.bugs import BUGS
from workbench.teach.markup import blocks, formula, plain
from workbench.teach.sabotage import small

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def fresh_sheet():
    wb.quiz.clear()
    yield
    wb.quiz.clear()


def program():
    """loss = (w · x)², with w used once more: two paths to the loss."""
    x = engine.tensor([1.0, 2.0])
    w = engine.tensor([0.5, 1.0], requires_grad=True)
    z = (w * x).sum()
    loss = z * z + w.sum()
    return x, w, z, loss


def ask(session, kind, **fields):
    """One request as a view sends it; the answers' JSON."""
    return [json.loads(json.dumps(message)) for message, _ in session.handle({"type": kind, "v": VERSION, "id": 7, **fields})]


# -- text ---------------------------------------------------------------------------------------------------------------------


def test_markdown_becomes_trees_and_never_markup():
    found = blocks(f"""# Title
        Some **bold**, *slanted* and `code` with {HOSTILE}.

        1. one
        2. two

        ```
        <b>raw</b>
        ```
        """)
    assert [block[0] for block in found] == ["h", "p", "ol", "pre"]
    assert ["b", "bold"] in found[1] and ["i", "slanted"] in found[1] and ["code", "code"] in found[1]
    assert HOSTILE in found[1][-1]  # text, as it was typed
    assert found[2][1:] == [["li", "one"], ["li", "two"]]
    assert found[3][1] == "<b>raw</b>"


def test_formulas_are_a_part_of_tex():
    tree = formula(r"\frac{\partial L}{\partial w_1} = \bar{z} x^2_i")
    assert tree[1][0] == "mfrac" and plain(tree[1]) == "(∂L)/(∂w_1)"
    assert tree[3][0] == "mover"
    assert tree[4] == ["msubsup", ["mi", "x"], ["mi", "i"], ["mn", "2"]]
    assert plain(formula(r"\href{javascript:x}")).startswith(r"\href")  # not known: stays what it is
    for text in ("{" * 5000, r"\frac", "x^", "}{", r"\sqrt{" * 500):
        assert formula(text)[0] == "mrow"


def test_text_that_is_none_is_refused():
    with pytest.raises(TypeError, match="Markdown"):
        blocks(3)
    with pytest.raises(ValueError, match="at most"):
        blocks("x" * 200_000)


# -- judging ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "w.grad",
        "[x for x in (1,)]",
        "lambda: 1",
        "(" * 5000,
        "1" * 20_000,
        "{}['a']",
        "9**9**9",
        "'a' * 9",
        "1 + [2]",
        "2 * True",
    ],
)
def test_answers_are_literals_and_nothing_runs(text):
    with pytest.raises(judge.Unreadable):
        judge.numbers(text)


def test_gradient_question_knows_what_was_forgotten():
    x, w, z, loss = program()
    z_value = 0.5 * 1 + 1.0 * 2
    truth = [2 * z_value * 1 + 1, 2 * z_value * 2 + 1]  # d/dw of z² + Σw, by hand
    question = wb.quiz.gradient(w, loss)
    assert question.name == "gradient-w" and w.grad is None
    assert "transposed" not in question.answer(repr(truth[::-1]))
    assert "one path adds" in question.answer(repr([2 * z_value, 4 * z_value]))  # forgot + w.sum()
    assert "one path adds" in question.answer([1.0, 1.0])
    assert "the sign is not" in question.answer([-t for t in truth])
    assert "factor of 2 is missing" in question.answer([t / 2 for t in truth])
    assert "too large" in question.answer([2 * t for t in truth])
    assert "shape must be (2,)" in question.answer("12")
    assert "Not zero" in question.answer("[0, 0]")
    assert question.answer("[1, ") == "Expected a number or a list of numbers, such as 0.5, -3/4 or [0.5, -1.0]."
    assert question.state == "wrong" and question.given.attempts == 8
    assert question.answer(str(truth).replace("-", "−")) == "Right."
    assert question.state == "right" and w.grad is None  # nothing was accumulated
    wrong = "[9, 9]"
    assert question.answer(wrong) == "Right." and question.given.answer != wrong  # it is over


@pytest.mark.parametrize(
    ("text", "number"), [("-1/3", -1 / 3), ("2*(0.5 - 1)", -1.0), ("[1/4, −3 + 2]", [0.25, -1.0]), ("(+2, -(3))", [2, -3])]
)
def test_fractions_and_sums_of_numbers_are_worked_out(text, number):
    assert judge.numbers(text).tolist() == number


def test_a_division_by_zero_is_said():
    with pytest.raises(judge.Unreadable, match="division by zero"):
        judge.numbers("[1, 2/0]")


def test_no_hint_is_the_answer():
    """Who types 1 would be told the answer as the factor that is missing, or by which 1 is too large."""
    assert wb.quiz("?", 7.0, id="seven").answer(1) == "A factor is missing."
    assert wb.quiz("?", -3.0, id="minus-three").answer(1) == "A factor is missing."
    assert "too large" in wb.quiz("?", 0.125, id="eighth").answer(1)
    assert not any(digit in wb.quiz("?", 0.125, id="eighth").answer(1) for digit in "0123456789")
    assert "A factor of 7" in wb.quiz("?", [7.0, 14.0], id="two").answer([1, 2])


def test_mean_and_transposition_are_recognised():
    square = engine.tensor([[1.0, 2.0], [3.0, 4.0]])
    question = wb.quiz("?", lambda: square, id="square")
    assert "transposed" in question.answer([[1, 3], [2, 4]])
    row = wb.quiz("?", engine.tensor([[1.0, 2.0, 3.0]]), id="row")
    assert "transposed" in row.answer([[1], [2], [3]])
    assert "in the shape" in row.answer([1, 2, 3])
    mean = wb.quiz("?", numpy.full(4, 0.25), id="mean")
    assert "4 times too large" in mean.answer([1, 1, 1, 1])
    close = wb.quiz("?", 0.123456, tolerance=1e-4, id="close")
    assert "more digits" in close.answer("0.1236")
    assert close.answer("0.12346") == "Right."
    assert wb.quiz("?", math.nan, id="nan").answer("nan") == "Right."


def test_shapes_choices_texts_and_nodes():
    x, w, z, loss = program()
    shape = wb.quiz.shape(engine.zeros(4, 2, 3), id="s")
    assert "order is not" in shape.answer("(2, 4, 3)")
    assert "Transposed" in shape.answer("3, 2, 4")
    assert "first axis is missing" in shape.answer("(2, 3)")
    assert "number of elements is right" in shape.answer("(8, 3)")
    assert "a shape" in shape.answer("[a, b]")
    assert shape.answer("4×2×3") == "Right."
    choice = wb.quiz("?", "relu", "choice", choices=["tanh", "relu"], id="c", why="It is flat below zero.")
    assert choice.answer("tanh") == "Not right."
    assert choice.answer("relu") == "Right. It is flat below zero."
    text = wb.quiz("?", ["chain rule", "the chain rule"], "text", id="t")
    assert text.answer(" Chain   RULE ") == "Right."
    node = wb.quiz("?", "sum", "node", about=loss, id="n")
    assert node.answer("mul") == "Not right."
    assert "no node" in node.answer(HOSTILE)
    assert node.answer("z") == "Right."
    coming = wb.quiz.next_node(loss)
    assert coming.answer("mul") == "Not right."
    assert coming.answer("loss").startswith("Right.")  # the root comes first
    walk = wb.step(loss)
    walk.next()
    second = wb.quiz.next_node(walk)
    assert second.answer(f"#{walk.plan[1]}").startswith("Right.")


def test_predict_then_reveal():
    question = wb.quiz("What is 6 × 7?", 42.0, id="q")
    with pytest.raises(ValueError, match="Answer first"):
        question.reveal()
    question.answer("41")
    assert question.reveal() == "42"
    assert "counts no more" in question.answer("42")
    assert question.state == "revealed" and "It is 42." in repr(question)


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="asks for one of"):
        wb.quiz("?", 1, "essay")
    with pytest.raises(ValueError, match="at least two"):
        wb.quiz("?", "a", "choice", choices=["a"])
    with pytest.raises(ValueError, match="tolerance"):
        wb.quiz("?", 1, tolerance=-1)
    with pytest.raises(KeyError, match="No question"):
        wb.quiz.answer("nope", 1)
    assert "not there yet" in wb.quiz("?", lambda: None, id="none").answer("1")
    x, w, z, loss = program()
    loss.backward()
    assert "could not be computed" in wb.quiz.gradient(w, loss).answer("[1, 1]")  # the graph was freed
    assert wb.quiz.gradient(w, id="stored").answer(w.grad) == "Right."


# -- the sheet of answers -----------------------------------------------------------------------------------------------------


def test_where_the_true_value_is_not_finite_nothing_is_said_of_digits():
    inf, nan = float("inf"), float("nan")
    infinite = wb.quiz("how large?", inf, id="infinite")
    assert infinite.answer("1") == "Not right: the true value is not finite."
    assert infinite.answer("nan") == "Not right."
    assert infinite.answer("inf") == "Right."
    mixed = wb.quiz("which?", [nan, 2.0], id="mixed")
    assert mixed.answer("[nan, 3]") == "Not right."
    assert mixed.answer("[1, 2]") == "Not right: the true value is not finite."
    assert mixed.answer("[nan, nan]") == "Not right: the true value is finite."
    assert mixed.answer("[nan, 2]") == "Right."


def questions():
    return wb.quiz("a?", 1.5, id="a", points=2), wb.quiz("b?", "yes", "choice", choices=["yes", "no"], id="b"), wb.quiz("c?", 3.0, id="c")


def test_answers_are_kept_and_graded_anew(tmp_path):
    a, b, c = questions()
    file = tmp_path / "answers.json"
    a.answer("1.5")
    wb.quiz.save(file)
    b.answer("no")
    c.answer("2")
    c.reveal()
    text = file.read_text(encoding="utf-8")
    assert "1.5" in text and '"yes"' not in text and "3.0" not in text  # what was answered, never what is right
    assert list(tmp_path.iterdir()) == [file]
    found = wb.grade(file)
    assert [(mark.name, mark.points) for mark in found.marks] == [("a", 2), ("b", 0), ("c", 0)]
    assert (found.points, found.of) == (2, 4)
    assert "revealed" in repr(found) and "'no' is not right" in repr(found)
    with pytest.raises(AssertionError, match="b: 0 of 1"):
        found.require()
    assert wb.grade(file, "a").points == 2
    with pytest.raises(AssertionError, match="'no'"):
        wb.grade(file, "b")
    with pytest.raises(KeyError, match="no question|No question"):
        wb.grade(file, "z")


def test_answers_come_back_in_another_kernel(tmp_path):
    file = tmp_path / "answers.json"
    wb.quiz.save(file)
    questions()[0].answer("1.5")
    wb.quiz.clear()  # as a new kernel has it
    a, b, c = questions()
    assert a.state == "open"
    wb.quiz.save(file)
    assert (a.state, a.feedback) == ("right", "Right.")
    b.answer("yes")
    assert wb.grade(file).points == 3


def test_an_edited_answer_brings_nothing_when_the_notebook_is_run_again(tmp_path):
    file = tmp_path / "answers.json"
    wb.quiz.save(file)
    questions()[0].answer("9")
    file.write_text(file.read_text().replace('"answer": "9"', '"answer": "1.5"'))
    wb.quiz.clear()
    wb.quiz.save(file)  # an assignment's first cell, as an autograder runs it
    a, _, _ = questions()
    assert wb.grade(file).points == 0 and "edited" in repr(wb.grade(file))
    wb.quiz.save(file)  # judges what there is
    assert a.state == "wrong" and "edited" in a.feedback
    a.answer("1.5")
    assert wb.grade(file, "a").points == 2


def test_edited_answers_bring_nothing(tmp_path):
    a, _, _ = questions()
    file = tmp_path / "answers.json"
    wb.quiz.save(file)
    a.answer("9")
    data = json.loads(file.read_text())
    data["answers"]["a"]["answer"] = "1.5"
    file.write_text(json.dumps(data))
    found = wb.grade(file)
    assert found.points == 0 and "edited" in repr(found)
    data["answers"]["a"] = {"answer": "1.5", "attempts": 1, "revealed": False}
    file.write_text(json.dumps(data))
    assert wb.grade(file).points == 0
    with pytest.raises(AssertionError):
        wb.grade(file, "a")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": "other"}', '{"format": "gradient-workbench answers", "version": 99, "answers": {}}', "[" * 100_000]
    + ['{"format": "gradient-workbench answers", "version": 1, "answers": {"a": 1}}']
    + ['{"format": "gradient-workbench answers", "version": 1, "answers": {"a": {"answer": 1, "attempts": true, "revealed": 0}}}'],
)
def test_files_that_are_none_are_refused(tmp_path, text):
    questions()
    file = tmp_path / "answers.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"answers\.json"):
        wb.grade(file)


def test_a_missing_file_is_an_error(tmp_path):
    questions()
    with pytest.raises(FileNotFoundError):
        wb.grade(tmp_path / "nothing.json")


def test_a_second_question_of_the_same_id_keeps_the_answer():
    questions()[0].answer("1.5")
    again = wb.quiz("a, in other words?", 1.5, id="a")
    assert again.given.answer == "1.5" and sheet.current.questions["a"] is again


# -- lessons ------------------------------------------------------------------------------------------------------------------


def lesson(**options):
    x, w, z, loss = program()
    pages = [
        wb.say("Hello", step="start"),
        wb.say("Here", at="sum", depth="numbers", overlay="bytes"),
        wb.quiz("What is `z`?", lambda: z, id="z", **options),
    ]
    return wb.lesson(loss, pages, "By hand"), loss


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
        wb.lesson(loss, [wb.say("x", at="conv")])
    with pytest.raises(ValueError, match="at least one step"):
        wb.lesson(loss, [])
    with pytest.raises(TypeError, match=r"wb\.say"):
        wb.lesson(loss, ["text"])
    with pytest.raises(TypeError, match="about a loss"):
        wb.lesson(3, [wb.say("x")])
    for wrong in ({"depth": "deep"}, {"overlay": "heat"}, {"step": "later"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            wb.say("x", **wrong)


def test_a_lesson_in_a_file(tmp_path):
    _, _, _, loss = program()
    wb.quiz("What now?", 1.0, id="q1")
    file = tmp_path / "lesson.md"
    file.write_text(
        "# One\n<!-- step: start -->\n\n---\n<!-- at: mul 2, depth: shapes -->\nTwo\n```\n<!-- not a note -->\n```\n---\n<!-- quiz: q1 -->\n"
    )
    session = wb.lesson(loss, str(file))
    first, second, third = session.lesson.message().pages
    assert (first.text[0][0], second.depth, third.question.name) == ("h", "shapes", "q1")
    assert session.recording.ops[second.node].name == "mul" and second.text[-1] == ["pre", "<!-- not a note -->"]
    for text, said in (("<!-- colour: red -->", "Page 1"), ("x\n---\n<!-- quiz: q9 -->", "Page 2.*q9")):
        file.write_text(text)
        with pytest.raises(ValueError, match=said):
            wb.lesson(loss, str(file))


def test_a_lesson_about_a_recording_and_requests_without_one():
    with wb.record() as r:
        y = engine.arange(3.0).sum()
    session = wb.lesson(r, [wb.say("No gradient here", at="sum")])
    assert session.stepper is None and session.lesson.rows[0] >= 0 and y is not None
    plain_session = wb.show(program()[3])
    assert "There is no lesson" in ask(plain_session, "turn_page", to=1)[0]["sentence"]


# -- a class that follows -----------------------------------------------------------------------------------------------------


def test_a_class_follows_through_a_file(tmp_path, monkeypatch):
    from workbench.teach import lesson as module

    monkeypatch.setattr(module, "SECONDS", 0.02)
    file = tmp_path / "class.json"
    teacher, _ = lesson(tolerance=0.1)
    student, _ = lesson(tolerance=0.2)
    heard: list[dict] = []
    client = student.connect(lambda message, buffers: heard.append(message))
    student.lesson.follow(file)
    wait_for(lambda: "not there yet" in student.lesson.trouble)
    wb.present(teacher, file)
    teacher.next()
    wait_for(lambda: student.lesson.at == 1)
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


def wait_for(true, seconds=10.0):
    import time

    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def test_following_takes_a_view_of_a_pass(tmp_path):
    with pytest.raises(TypeError, match=r"wb\.lesson"):
        wb.present(3, tmp_path / "x.json")
    session = wb.lesson(program()[3], [wb.say("x")])
    with pytest.raises(FileNotFoundError, match="no folder 'nowhere'"):
        wb.present(session, tmp_path / "nowhere" / "x.json")


# -- seeded bugs --------------------------------------------------------------------------------------------------------------


def loop(model, optimizer, loss, data):
    """The plain loop."""
    model.train()
    for x, y in data:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


class Layers:
    """A model called layer by layer: whatever was done to the model's own forward() is left out."""

    def __init__(self, model):
        self.model = model

    def train(self):
        self.model.train()

    def __call__(self, x):
        for layer in self.model:
            x = layer(x)
        return x


def without_grads(model, optimizer, loss, data):
    model.train()
    for x, y in data:
        for p in model.parameters():
            p.grad = None
        loss(model(x), y).backward()
        optimizer.step()


def own_step(model, optimizer, loss, data):
    model.train()
    for x, y in data:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        type(optimizer).step(optimizer)


def in_training(model, optimizer, loss, data):
    nn.Module.train(model)
    loop(model, optimizer, loss, data)


def slower(model, optimizer, loss, data):
    optimizer.param_groups[0]["lr"] /= 300
    loop(model, optimizer, loss, data)


def all_parameters(model, optimizer, loss, data):
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    optimizer.add_param_group({"params": [p for p in model.parameters() if id(p) not in known]})
    loop(model, optimizer, loss, data)


def anew(model, optimizer, loss, data):
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    loop(model, optimizer, loss, data)


REPAIRS = {
    "no_zero_grad": without_grads,
    "zero_after_backward": own_step,
    "softmax_axis": lambda m, o, loss, d: loop(m, o, F.cross_entropy, d),
    "double_softmax": lambda m, o, loss, d: loop(m, o, F.cross_entropy, d),
    "detach": lambda m, o, loss, d: loop(Layers(m), o, loss, d),
    "eval_mode": in_training,
    "learning_rate": slower,
    "forgotten_layer": all_parameters,
    "broadcast_loss": lambda m, o, loss, d: loop(m, o, loss, [(x, y.reshape(-1, 1)) for x, y in d]),
    "labels_shifted": lambda m, o, loss, d: loop(m, o, loss, [(x, engine.roll(y, -1)) for x, y in d]),
    "dead_relu": anew,
    "vanishing_init": anew,
    "in_place": lambda m, o, loss, d: loop(Layers(m), o, loss, d),
    "graph_kept": lambda m, o, loss, d: loop(m, o, loss.sound, d),
    "target_dtype": lambda m, o, loss, d: loop(m, o, loss, [(x, y.long()) for x, y in d]),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_there_is_found_and_is_mended(name):
    exercise = wb.sabotage(name)
    failed = ""
    try:
        with wb.record():
            exercise.train()
    except RuntimeError as error:
        failed = str(error)
    if BUGS[name].finding:
        assert BUGS[name].finding in [one.code for one in wb.check().findings]
    assert BUGS[name].title not in repr(exercise)
    try:
        assert not wb.sabotage.solved(loop).fixed  # the plain loop does not get around it
    except RuntimeError:
        assert failed
    verdict = exercise.solved(REPAIRS[name])
    assert verdict.fixed and not verdict.found, verdict
    assert exercise.guess("no_zero_grad" if name != "no_zero_grad" else "detach") == "Not right."
    assert exercise.guess(BUGS[name].finding or name).startswith("Right.")
    assert wb.sabotage.solved().found and BUGS[name].title in repr(exercise)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_the_sound_program_learns_and_nothing_is_found(task):
    sound = small(task)
    with wb.record():
        losses = sound.train()
    assert losses[-1] < 0.5 * losses[0]
    assert wb.check().findings == []


def test_a_bug_in_a_program_of_ones_own_is_taken_out_again():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    data = [(engine.randn(6, 4), engine.randint(0, 3, (6,))) for _ in range(3)]
    before = [p.detach().clone() for p in model.parameters()]
    attributes = set(vars(model)), set(vars(optimizer))
    for name in ("no_zero_grad", "zero_after_backward", "detach", "learning_rate", "forgotten_layer", "dead_relu", "vanishing_init"):
        with wb.sabotage(name, model, optimizer, F.cross_entropy, data) as exercise:
            assert exercise.model is model
        assert (set(vars(model)), set(vars(optimizer))) == attributes
        assert optimizer.param_groups[0]["lr"] == 0.1 and len(optimizer.param_groups[0]["params"]) == 4
        assert all(bool((a == b).all()) for a, b in zip(model.parameters(), before, strict=True))
    with pytest.raises(ValueError, match="Dropout or BatchNorm"):
        wb.sabotage("eval_mode", model, optimizer, F.cross_entropy, data)
    with pytest.raises(ValueError, match="all four"):
        wb.sabotage("detach", model)
    with pytest.raises(ValueError, match="There is no bug 'typo'"):
        wb.sabotage("typo")


def test_a_bug_that_nobody_asks_about_is_not_graded(tmp_path):
    wb.quiz.save(tmp_path / "answers.json")
    with wb.sabotage("no_zero_grad") as exercise:
        assert not exercise.solved() and "one bug" in repr(exercise)
    assert wb.grade(tmp_path / "answers.json").of == 0
    assert exercise.guess("detach").startswith("Not right.")
    assert [mark.sentence for mark in wb.grade(tmp_path / "answers.json").marks] == [
        "'A detach() cuts the graph in the middle' is not right."
    ]


def test_hints_come_in_three_levels_and_random_bugs_do_not_tell_their_name():
    seen = set()
    for seed in range(12):
        exercise = wb.sabotage.random(seed=seed)
        title = exercise._bug.title
        seen.add(title)
        assert wb.sabotage.random(seed=seed)._bug.title == title  # the same again
        assert title not in repr(exercise) and exercise._bug.name not in repr(exercise)
        message = json.dumps(vars(exercise.question.message()))
        assert message.count(title) == 1  # among the choices alone
    assert len(seen) > 4
    assert [exercise.hint()[:11] for _ in range(3)] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
    assert exercise._bug.title in exercise.reveal()


def test_the_guess_is_graded_like_any_answer(tmp_path):
    exercise = wb.sabotage("detach", id="exercise-1")
    wb.quiz.save(tmp_path / "answers.json")
    exercise.guess("gradient-cut")
    assert wb.grade(tmp_path / "answers.json", "exercise-1").points == 1


def test_the_page_of_the_documentation_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "teaching.md").read_text(encoding="utf-8")
    names: dict = {}
    exec(page.split("```python")[1].split("```")[0], names)
    assert "page 1 of 3" in repr(names["lesson"])
    assert wb.grade("answers.json", "w-bar").points == 1
    assert f"one of {len(BUGS)} bugs" in page


def test_messages_of_lessons_are_read_with_care():
    with pytest.raises(protocol.BadMessage):
        protocol.read({"type": "answer_question", "v": VERSION, "id": 1, "name": "a", "do": "eval"})
    with pytest.raises(protocol.BadMessage):
        protocol.read({"type": "turn_page", "v": VERSION, "id": 1, "to": "2"})
    assert ast.literal_eval("1") == 1


# -- forward against reverse mode ---------------------------------------------------------------------------------------------

W, A = engine.tensor(numpy.arange(12.0).reshape(3, 4) / 7), engine.tensor(numpy.arange(15.0).reshape(5, 3) / 9)
POINT = engine.tensor([0.5, -1.0, 2.0, 0.3], dtype=engine.float64)
# function, (multiplications, additions) of one forward pass, of one reverse pass; counted by hand from the derivative
BY_HAND = {
    "x·x": (lambda x: x * x, (8, 4), (8, 4)),
    "tanh": (engine.tanh, (8, 4), (8, 4)),  # t·(1 − y·y)
    "W x": (lambda x: W @ x, (12, 9), (12, 8)),  # 3×4 by 4, and 4×3 by 3
    "sum": (lambda x: x.sum(), (0, 3), (0, 0)),
    "A tanh(W x)": (lambda x: (A @ engine.tanh(W @ x)).sum(), (12 + 6 + 15, 9 + 3 + 10 + 4), (15 + 6 + 12, 12 + 3 + 8)),
}


def by_differences(f, x):
    """The Jacobian by central differences in float64."""
    columns = []
    for j in range(x.numel()):
        nudge = engine.zeros(4, dtype=engine.float64)
        nudge[j] = 1e-6
        columns.append(((f(x + nudge) - f(x - nudge)) / 2e-6).numpy().reshape(-1))
    return numpy.stack(columns, 1)


@pytest.mark.parametrize("name", BY_HAND)
def test_costs_are_those_counted_by_hand(name):
    f, forward, reverse = BY_HAND[name]
    found = wb.modes(f, POINT).modes
    assert (found.forward.each.multiplications, found.forward.each.additions) == forward
    assert (found.reverse.each.multiplications, found.reverse.each.additions) == reverse
    outputs = f(POINT).numel()
    assert (found.inputs, found.outputs, found.forward.passes, found.reverse.passes) == (4, outputs, 4, outputs)
    assert found.forward.total.multiplications == 4 * forward[0] and found.reverse.total.additions == outputs * reverse[1]


FUNCTIONS = {
    **{name: f for name, (f, _, _) in BY_HAND.items()},
    "softmax": lambda x: F.log_softmax(x, 0),  # its push is the transpose of its pull
    "norm": lambda x: x.norm(),
    "sort": lambda x: x.sort().values * x,
    "einsum": lambda x: engine.einsum("ij,j->i", W, x),
    "views": lambda x: engine.stack([x[0] * x[1], x[2].sin()]),
    "in place": lambda x: x.clone().mul_(3.0)[1:],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_modes_give_the_jacobian_step_by_step(name):
    from workbench.teach.modes import Jacobian, jacobian_of

    f = FUNCTIONS[name]
    session = wb.modes(f, POINT)
    y, inputs = jacobian_of(f, [POINT])
    j = Jacobian(y, inputs, ["x"], session.recording)
    truth = by_differences(f, POINT)
    assert numpy.allclose(numpy.stack([j.forward(i)[1] for i in range(j.n)], 1), truth, atol=1e-6)
    assert numpy.allclose(numpy.stack([j.reverse(i)[1] for i in range(j.m)]), truth, atol=1e-6)
    # a linear map and its transpose take the same multiplications
    if name not in ("views", "sort"):
        assert session.modes.forward.each.multiplications == session.modes.reverse.each.multiplications
    for one in (session.modes.forward, session.modes.reverse):
        assert sum(step.cost.additions for step in one.shown[0].steps) == one.each.additions
        assert all(-1 < step.node < session.recording.count for step in one.shown[0].steps)
    called = next(iter(inspect.signature(f).parameters))
    assert session.modes.forward.shown[1].seed == f"{called}[1]"


def test_the_graph_of_both_modes_has_the_functions_own_names_values_and_lines():
    scale = engine.tensor([2.0, 3.0])

    def curve(t, u):
        return (scale * t).cos() + u

    session = wb.modes(curve, engine.tensor(0.5), engine.tensor(1.0))
    r = session.recording
    assert {"t", "u", "scale", "y"} <= set(r.names.values()) and r.title == "curve"
    cos = next(row for row in range(r.count) if r.op_name(row) == "cos")
    assert numpy.allclose(r.value(cos), numpy.cos([1.0, 1.5]))
    assert session.graph.sites[session.graph.site(cos)].text == "return (scale * t).cos() + u"
    assert [one.seed for one in session.modes.forward.shown] == ["t", "u"]
    with wb.record() as watched:  # who watches already goes on watching
        wb.modes(curve, engine.tensor(0.5), engine.tensor(1.0))
    assert "cos" in {watched.recording.op_name(row) for row in range(watched.recording.count)}


def test_counting_changes_nothing_and_the_report_reads():
    lin = nn.Linear(4, 2)
    text = repr(wb.modes(lambda x: lin(x[None]).tanh().sum(), engine.ones(4)))
    assert "From 4 numbers to 1: reverse mode takes 1 pass and" in text and "passes" in text
    assert lin.weight.grad is None
    assert "both modes take 0" in repr(wb.modes(lambda x: x.reshape(2, 2), engine.ones(4)))
    for wrong, error in (((lambda x: 3.0), TypeError), ((lambda x: x.detach()), ValueError), ((lambda x: x.expand(200, 100)), ValueError)):
        with pytest.raises(error):
            wb.modes(wrong, engine.ones(1) if error is ValueError else engine.ones(2))
    with pytest.raises(ValueError, match="floating-point"):
        wb.modes(lambda x: x, engine.arange(3))
    with pytest.raises(TypeError, match="wb.modes"):
        wb.modes(lambda x: x)
    wide = wb.modes(lambda x: x.expand(100) * 2, engine.ones(1)).modes
    assert wide.sentence.startswith("From 1 number to 100: forward mode takes 1 pass and")
    json.dumps(wide.to_json())
